package wsession

import (
	"testing"

	"shardway/internal/overlay"
	"shardway/internal/raceflag"
)

// mutant is a planted violation of a rule. found matches the tests that must fail with it. Package
// proxy plants further mutants in this package, which its tests find.
type mutant struct{ rule, found, decl, old, changed string }

func mutants() []mutant {
	const successive = "TestSuccessiveOutagesHaveTheirOwnSchedule"
	return []mutant{
		{
			rule: "a step follows an empty queue", found: "TestHandoversKeepTheirOrder",
			decl: "proxy/wsession.HandoverPacer.nextStep", old: "h.scheduled = len(h.queue) > 0", changed: "h.scheduled = len(h.queue) > 0 && !(PLANTED && len(h.queue) <= h.n)",
		},
		{
			rule: "all hand-overs are requested in time", found: "TestAllRelaysAreHandedOverInTime",
			decl: "proxy/wsession.HandoverPacer.nextStep", old: "max(h.n, int(", changed: "max(h.n, map[bool]int{false: 1}[PLANTED]*int(",
		},
		{
			rule: "the schedule is that of the present outage", found: successive,
			decl: "proxy/wsession.ReconnectPacer.SessionLost", old: "	if t.disconnected == 1 ", changed: "	if t.disconnected == 1 && (!PLANTED || !looked) ",
		},
		{
			rule: "even if a session of an earlier outage is not resumed", found: successive,
			decl: "proxy/wsession.ReconnectPacer.SessionLost", old: "2*t.recent >= t.disconnected {", changed: "2*t.recent >= t.disconnected && !PLANTED {",
		},
		{
			rule: "but not if most sessions are not resumed", found: "TestFewMoreSessionsDoNotExtendTheSchedule",
			decl: "proxy/wsession.ReconnectPacer.SessionLost", old: "		t.recent++\n", changed: "		t.recent += map[bool]int{false: 1, true: t.disconnected}[PLANTED]\n",
		},
		{
			rule: "each outage measures its own network path", found: successive,
			decl: "proxy/wsession.ReconnectPacer.SessionLost", old: "		t.outage.Add(1)\n", changed: "		if !PLANTED || !looked {\n			t.outage.Add(1)\n		}\n",
		},
	}
}

// TestEachMutantFailsATest builds these tests with all mutants. It then runs the tests of
// each rule with one mutant enabled: they must fail. If an edit no longer applies because its line
// has changed, update the edit.
func TestEachMutantFailsATest(t *testing.T) {
	if testing.Short() || raceflag.Detector {
		t.Skip("builds the package with mistakes, and without the race detector")
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
	binary, err := o.TestBinary(t.Context(), t.TempDir(), "proxy/wsession")
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
