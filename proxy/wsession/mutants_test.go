package wsession

import (
	"testing"

	"shardway/internal/overlay"
	"shardway/internal/raceflag"
)

// mutants returns the mutants that the tests of this package find. Tests of package proxy find further ones.
func mutants() []overlay.Mutant {
	const successive = "TestSuccessiveOutagesHaveTheirOwnSchedule"
	return []overlay.Mutant{
		{
			Rule: "a step follows an empty queue", Found: "TestHandoversKeepTheirOrder",
			Decl: "proxy/wsession.HandoverPacer.nextStep", Old: "h.scheduled = len(h.queue) > 0", New: "h.scheduled = len(h.queue) > 0 && !(PLANTED && len(h.queue) <= h.n)",
		},
		{
			Rule: "all hand-overs are requested in time", Found: "TestAllRelaysAreHandedOverInTime",
			Decl: "proxy/wsession.HandoverPacer.nextStep", Old: "max(h.n, int(", New: "max(h.n, map[bool]int{false: 1}[PLANTED]*int(",
		},
		{
			Rule: "the schedule is that of the present outage", Found: successive,
			Decl: "proxy/wsession.ReconnectPacer.SessionLost", Old: "	if t.disconnected == 1 ", New: "	if t.disconnected == 1 && (!PLANTED || !looked) ",
		},
		{
			Rule: "even if a session of an earlier outage is not resumed", Found: successive,
			Decl: "proxy/wsession.ReconnectPacer.SessionLost", Old: "2*t.recent >= t.disconnected {", New: "2*t.recent >= t.disconnected && !PLANTED {",
		},
		{
			Rule: "but not if most sessions are not resumed", Found: "TestFewMoreSessionsDoNotExtendTheSchedule",
			Decl: "proxy/wsession.ReconnectPacer.SessionLost", Old: "		t.recent++\n", New: "		t.recent += map[bool]int{false: 1, true: t.disconnected}[PLANTED]\n",
		},
		{
			Rule: "each outage measures its own network path", Found: successive,
			Decl: "proxy/wsession.ReconnectPacer.SessionLost", Old: "		t.outage.Add(1)\n", New: "		if !PLANTED || !looked {\n			t.outage.Add(1)\n		}\n",
		},
	}
}

func TestEachMutantFailsATest(t *testing.T) {
	if testing.Short() || raceflag.Detector {
		t.Skip("builds the package with mutants, and without the race detector")
	}
	overlay.TestMutants(t, "../..", "proxy/wsession", mutants())
}
