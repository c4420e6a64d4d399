package planted_test

import (
	"testing"

	"shardway/e2e/planted"
)

// A line that a bug is planted in may change without anybody thinking of the bug: chaos
// would find that out, minutes later and as root.
func TestBugsFindTheirPlaces(t *testing.T) {
	if _, err := planted.Overlay("../..", t.TempDir()); err != nil {
		t.Error(err)
	}
}
