package overlay_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"shardway/internal/overlay"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestBuildSeesTheOverlay(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "go.mod"), "module x\n\ngo 1.26\n")
	write(t, filepath.Join(root, "main.go"), "package main\n\nfunc main() { println(\"right\", 1) }\n")
	o := overlay.New(root)
	for _, e := range []overlay.Edit{{"main.main", `"right"`, "word()"}, {"main.main", "1)", "2)"}} {
		if err := o.Edit(e); err != nil {
			t.Fatal(err)
		}
	}
	o.Add("word.go", "package main\n\nfunc word() string { return \"wrong\" }\n")
	path, err := o.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "-overlay="+path, ".")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "wrong 2" {
		t.Errorf("%s, %v, want wrong 2", out, err)
	}
	if b, err := os.ReadFile(filepath.Join(root, "main.go")); err != nil || !strings.Contains(string(b), "right") {
		t.Errorf("the source itself is %s, %v", b, err)
	}
}

// source declares what edits can name, in two files and for two platforms.
func source(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "a", "a.go"), "package a // a\n\n// T is one.\ntype T[K any] struct{ n int }\n\n// N counts.\nfunc (t *T[K]) N() int { return t.n }\n\nvar x, y = 1, 2\n\nfunc init() {}\n")
	write(t, filepath.Join(root, "a", "b_linux.go"), "package a\n\nfunc (T[K]) here() string { return \"here\" }\n\nfunc init() {}\n")
	write(t, filepath.Join(root, "a", "b_windows.go"), "package a\n\nfunc (T[K]) here() string { return \"there\" }\n")
	write(t, filepath.Join(root, "a", "a_test.go"), "package a\n\nfunc N() int { return 0 }\n")
	return root
}

func TestEditNamesDeclarations(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a file of the test is compiled on Linux only")
	}
	for _, e := range []overlay.Edit{
		{"a.T", "is one", "is two"},
		{"a.T.N", "counts", "tells"},
		{"a.T.N", "return t.n }\n", "return -t.n }\n"},
		{"a.x", "1", "3"},
		{"a.y", "1", "3"},
		{"a.T.here", `"here"`, `"nowhere"`},
	} {
		if err := overlay.New(source(t)).Edit(e); err != nil {
			t.Errorf("%+v: %v", e, err)
		}
	}
}

func TestEditMustFindItsPlaceOnce(t *testing.T) {
	for _, c := range []struct {
		edit overlay.Edit
		want string
	}{
		{overlay.Edit{Decl: "a.T.N", Old: "is one", New: ""}, "occurs 0 times in a.T.N"},
		{overlay.Edit{Decl: "a.T.N", Old: "N", New: ""}, "occurs 2 times in a.T.N"},
		{overlay.Edit{Decl: "a.N", Old: "0", New: ""}, `a declares no "N"`},
		{overlay.Edit{Decl: "a.init", Old: "{}", New: ""}, `a declares "init" more than once`},
		{overlay.Edit{Decl: "b.T", Old: "a", New: ""}, "no such file"},
		{overlay.Edit{Decl: "a.go", Old: "a", New: ""}, `a declares no "go"`},
		{overlay.Edit{Decl: "T", Old: "a", New: ""}, "write it as"},
	} {
		if err := overlay.New(source(t)).Edit(c.edit); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.edit, err, c.want)
		}
	}
}
