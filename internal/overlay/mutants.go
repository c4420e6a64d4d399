package overlay

import "testing"

// Mutant is a planted violation of one rule of a package.
type Mutant struct {
	Rule  string // the rule that the mutant violates
	Found string // regular expression for the names of the tests that must fail
	Decl  string // see Edit
	Old   string // see Edit
	New   string // see Overlay.Plant
}

// TestMutants builds the tests of the package at path below the root with all mutants. For each mutant
// it then runs the tests that must fail, with only this mutant enabled. If an edit no longer applies
// because its line has changed, update the edit.
//
// The caller must skip its test with the race detector, which the built binary does not use.
func TestMutants(t *testing.T, root, path string, mutants []Mutant) {
	t.Helper()
	edits := make([][]Edit, len(mutants))
	for i, m := range mutants {
		edits[i] = []Edit{{Decl: m.Decl, Old: m.Old, New: m.New}}
	}
	overlay := New(root)
	if err := overlay.Plant(edits); err != nil {
		t.Fatal(err)
	}
	binary, err := overlay.TestBinary(t.Context(), t.TempDir(), path)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range mutants {
		t.Run(m.Rule, func(t *testing.T) {
			if err := Find(t.Context(), binary, i, "^("+m.Found+")$"); err != nil {
				t.Error(err)
			}
		})
	}
}
