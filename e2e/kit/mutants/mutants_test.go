package mutants_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"shardway/e2e/kit/mutants"
)

// The edits of the bugs must still apply and compile after a change of the source. Package chaos
// would detect that only minutes later, and as root.
func TestProgramWithBugsCompiles(t *testing.T) {
	const root = "../../.."
	overlay, err := mutants.Overlay(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay="+overlay, "-o", filepath.Join(t.TempDir(), "shardway"), ".")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
