package overlay_test

import (
	"os"
	"os/exec"
	"path/filepath"
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
	for _, e := range []overlay.Edit{{"main.go", `"right"`, "word()"}, {"main.go", "1)", "2)"}} {
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

func TestEditMustFindItsPlaceOnce(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "a.go"), "package a // a\n")
	for _, e := range []overlay.Edit{{"a.go", "b", "c"}, {"a.go", "a", "c"}, {"b.go", "a", "c"}} {
		if err := overlay.New(root).Edit(e); err == nil {
			t.Errorf("%+v was taken", e)
		}
	}
}
