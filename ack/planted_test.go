//go:build !planted

package ack_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// plantedSource is added to the package for builds with mistakes.
const plantedSource = `package ack

var planted int

// Plant plants the mistake of the given number.
func Plant(n int) { planted = n }

func plantedAs(on bool) int {
	if on {
		return 1
	}
	return 0
}
`

// TestEveryMistakeIsCaught plants each mistake and lets the simulation look for
// it. The mistakes are edits of this package's source, compiled in by the go
// command's -overlay: the package itself knows nothing of them. If an edit does
// not find its place any more, because the line has changed, change it with it.
func TestEveryMistakeIsCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the package with mistakes")
	}
	overlay := plantAll(t)
	cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-tags=planted", "-overlay="+overlay, "-run=^TestPlanted$", "-v", "-count=1", "-timeout=20m", ".", "-sim.mistake="+*simMistake)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
		return
	}
	t.Logf("%s", out)
}

// plantAll writes the edited source and returns the overlay that names it.
func plantAll(t *testing.T) string {
	t.Helper()
	dir, replace := t.TempDir(), map[string]string{}
	for file, text := range plantedFiles(t) {
		path := filepath.Join(dir, file)
		write(t, path, []byte(text))
		here, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		replace[here] = path
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	write(t, overlay, b)
	return overlay
}

// plantedFiles returns the files of this package that have mistakes, with them.
func plantedFiles(t *testing.T) map[string]string {
	t.Helper()
	source := map[string]string{"planted.go": plantedSource}
	for i, m := range mistakes() {
		for _, e := range m.edits {
			if source[e.file] == "" {
				b, err := os.ReadFile(e.file)
				if err != nil {
					t.Fatal(err)
				}
				source[e.file] = string(b)
			}
			if n := strings.Count(source[e.file], e.old); n != 1 {
				t.Fatalf("mistake %q: %q occurs %d times in %s, want once", m.name, e.old, n, e.file)
			}
			source[e.file] = strings.Replace(source[e.file], e.old, strings.ReplaceAll(e.new, "PLANTED", fmt.Sprintf("(planted == %d)", i+1)), 1)
		}
	}
	return source
}
