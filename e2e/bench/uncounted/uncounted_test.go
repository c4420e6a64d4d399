package uncounted_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"shardway/e2e/bench/uncounted"
)

// What is taken out may change without anybody thinking of the bench, which nobody runs by
// chance: it has to be found, what is left has to compile, and the program has to say what
// it is. Whether it counts, the bench asks it.
func TestWhatCountsIsFoundAndTakenOut(t *testing.T) {
	dir := t.TempDir()
	list, err := uncounted.Overlay("../../..", dir)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "shardway")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-overlay="+list, "-o", program, "shardway").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err = exec.CommandContext(t.Context(), program, "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), uncounted.Owns) {
		t.Errorf("version says %q, %v, want that it has %q", out, err, uncounted.Owns)
	}
}
