package overlay

import (
	"testing"

	"shardway/internal/raceflag"
)

// Mutant is a planted violation of one rule of a package.
type Mutant struct {
	Rule  string // the rule that the mutant violates
	Found string // regular expression for the names of the tests that must fail
	Decl  string // see Edit
	Old   string // see Edit
	New   string // see Overlay.Plant
}

// TestMutants builds the tests of the package at path below the root with all mutants. For each mutant
// it then runs the tests that must fail, with only this mutant enabled.
func TestMutants(t *testing.T, root, path string, mutants []Mutant) {
	t.Helper()
	edits := make([][]Edit, len(mutants))
	for i, m := range mutants {
		edits[i] = []Edit{{Decl: m.Decl, Old: m.Old, New: m.New}}
	}
	binary := BuildTests(t, root, path, edits)
	for i, m := range mutants {
		t.Run(m.Rule, func(t *testing.T) {
			if err := Find(t.Context(), binary, i, "^("+m.Found+")$"); err != nil {
				t.Error(err)
			}
		})
	}
}

// BuildTests builds the tests of the package at path below the root with all mistakes, and returns the
// program. If an edit no longer applies because its line has changed, update the edit.
//
// It skips the test in short mode because a build takes long. It also skips the test with the race
// detector, which the built program would not use.
func BuildTests(t *testing.T, root, path string, mistakes [][]Edit) (binary string) {
	t.Helper()
	if testing.Short() || raceflag.Detector {
		t.Skip("builds a program with planted mistakes, without the race detector")
	}
	overlay := New(root)
	if err := overlay.Plant(mistakes); err != nil {
		t.Fatal(err)
	}
	binary, err := overlay.TestBinary(t.Context(), t.TempDir(), path)
	if err != nil {
		t.Fatal(err)
	}
	return binary
}
