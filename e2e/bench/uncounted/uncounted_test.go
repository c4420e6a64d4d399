package uncounted_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"shardway/e2e/bench/uncounted"
)

// The edited source text may change without a run of the benchmark. The edits must still
// apply, the program must compile, and its version must report them. The benchmark
// verifies that the program counts no requests.
func TestEditsRemoveRequestMetrics(t *testing.T) {
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
	if err != nil || !strings.Contains(string(out), uncounted.VersionNote) {
		t.Errorf("version prints %q, %v, want %q in it", out, err, uncounted.VersionNote)
	}
}
