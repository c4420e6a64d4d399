package netpoll_test

import (
	"testing"

	"shardway/internal/overlay"
	"shardway/internal/raceflag"
)

// mutant is a planted violation of a rule. found matches the tests that must fail with it. Package
// proxy plants further mutants in this package, which its tests find.
type mutant struct{ rule, found, decl, old, changed string }

func mutants() []mutant {
	return []mutant{
		{
			rule: "a failed watcher reports all connections", found: "TestFailedWatcherReportsAllConns",
			decl: "internal/netpoll.Watcher.takeAll", old: "		all = append(all, f)\n", changed: "		if !PLANTED {\n			all = append(all, f)\n		}\n",
		},
		{
			rule: "ids are not reused", found: "TestWatcherDoesNotReportCancelledConn|TestFailedWatcherReportsAllConns",
			decl: "internal/netpoll.Watcher.Watch", old: "	w.lastID++\n", changed: "	if !PLANTED {\n		w.lastID++\n	}\n",
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
	binary, err := o.TestBinary(t.Context(), t.TempDir(), "internal/netpoll")
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
