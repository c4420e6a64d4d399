package eventrelay_test

import (
	"testing"

	"shardway/internal/overlay"
	"shardway/internal/raceflag"
)

func mutants() []overlay.Mutant {
	return []overlay.Mutant{{
		Rule: "the end of one run does not end the next", Found: "TestStreamEndAffectsItsOwnRunOnly",
		Decl: "proxy/eventrelay.Relay.RequestEnd",
		Old:  "		if uint32(old>>eventsRun) != runNumber ||", New: "		if !PLANTED && uint32(old>>eventsRun) != runNumber ||",
	}}
}

func TestEachMutantFailsATest(t *testing.T) {
	if testing.Short() || raceflag.Detector {
		t.Skip("builds the package with mutants, and without the race detector")
	}
	overlay.TestMutants(t, "../..", "proxy/eventrelay", mutants())
}
