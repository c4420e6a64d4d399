package mutants_test

import (
	"testing"

	"shardway/e2e/kit/mutants"
)

// A line that a bug is planted in may change without anybody thinking of the bug: chaos
// would find that out, minutes later and as root.
func TestBugsFindTheirPlaces(t *testing.T) {
	if _, err := mutants.Overlay("../../..", t.TempDir()); err != nil {
		t.Error(err)
	}
}
