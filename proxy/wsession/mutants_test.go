package wsession

import (
	"testing"

	"shardway/internal/overlay"
)

// Tests of package proxy find further mutants of this package.
func TestEachMutantFailsATest(t *testing.T) {
	const successive = "TestSuccessiveOutagesHaveTheirOwnSchedule"
	overlay.TestMutants(t, "../..", "proxy/wsession", []overlay.Mutant{
		{
			Rule: "a step follows an empty queue", Found: "TestHandoversKeepTheirOrder",
			Decl: "proxy/wsession.HandoverPacer.nextStep", Old: "p.scheduled = len(p.requests) > 0", New: "p.scheduled = len(p.requests) > 0 && !(PLANTED && len(p.requests) <= p.stepLimit)",
		},
		{
			Rule: "all hand-overs are requested in time", Found: "TestAllRelaysAreHandedOverInTime",
			Decl: "proxy/wsession.HandoverPacer.nextStep", Old: "max(p.stepLimit, int(", New: "max(p.stepLimit, map[bool]int{false: 1}[PLANTED]*int(",
		},
		{
			Rule: "the schedule is that of the present outage", Found: successive,
			Decl: "proxy/wsession.ReconnectPacer.RecordSessionLost", Old: "	if p.disconnected == 1 ", New: "	if p.disconnected == 1 && (!PLANTED || !checksRunning) ",
		},
		{
			Rule: "even if a session of an earlier outage is not resumed", Found: successive,
			Decl: "proxy/wsession.ReconnectPacer.RecordSessionLost", Old: "2*p.recentlyLost >= p.disconnected {", New: "2*p.recentlyLost >= p.disconnected && !PLANTED {",
		},
		{
			Rule: "but not if most sessions are not resumed", Found: "TestFewMoreSessionsDoNotExtendTheSchedule",
			Decl: "proxy/wsession.ReconnectPacer.RecordSessionLost", Old: "		p.recentlyLost++\n", New: "		p.recentlyLost += map[bool]int{false: 1, true: p.disconnected}[PLANTED]\n",
		},
		{
			Rule: "each outage measures its own network path", Found: successive,
			Decl: "proxy/wsession.ReconnectPacer.RecordSessionLost", Old: "		p.outage.Add(1)\n", New: "		if !PLANTED || !checksRunning {\n			p.outage.Add(1)\n		}\n",
		},
	})
}
