package mutants_test

import (
	"testing"

	"shardway/e2e/kit/mutants"
)

// The edits of the bugs must still apply after a change of the source text. Package chaos would
// detect that only minutes later, and as root.
func TestEditsOfBugsApply(t *testing.T) {
	if _, err := mutants.Overlay("../../..", t.TempDir()); err != nil {
		t.Error(err)
	}
}
