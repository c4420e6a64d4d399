package sizehint_test

import (
	"testing"

	"shardway/internal/overlay"
	"shardway/internal/raceflag"
)

// mutant is a planted violation of a rule. found is the name of the test that must fail with it.
type mutant struct{ rule, found, decl, old, changed string }

func mutants() []mutant {
	const last = "TestResponseSizePredictionUsesLastSize"
	return []mutant{
		{
			rule: "large responses are remembered", found: last,
			decl: "proxy/sizehint.Predictor.Record", old: "	if known != now {", changed: "	if known != now && !PLANTED {",
		},
		{
			rule: "small responses are remembered", found: last,
			decl: "proxy/sizehint.Predictor.Record", old: "	if !large {", changed: "	if !large && !PLANTED {",
		},
	}
}

// TestEachMutantFailsATest builds these tests with all mutants. It then runs the tests of each rule
// with one mutant enabled: they must fail. If an edit no longer applies because its line has
// changed, update the edit.
func TestEachMutantFailsATest(t *testing.T) {
	if testing.Short() || raceflag.Detector {
		t.Skip("builds the package with mutants, and without the race detector")
	}
	all := mutants()
	edits := make([][]overlay.Edit, len(all))
	for i, m := range all {
		edits[i] = []overlay.Edit{{Decl: m.decl, Old: m.old, New: m.changed}}
	}
	o := overlay.New("../..")
	if err := o.Plant(edits); err != nil {
		t.Fatal(err)
	}
	binary, err := o.TestBinary(t.Context(), t.TempDir(), "proxy/sizehint")
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range all {
		t.Run(m.rule, func(t *testing.T) {
			if err := overlay.Find(t.Context(), binary, i, "^("+m.found+")$"); err != nil {
				t.Error(err)
			}
		})
	}
}
