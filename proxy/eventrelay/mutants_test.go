package eventrelay_test

import (
	"testing"

	"shardway/internal/overlay"
)

func TestEachMutantFailsATest(t *testing.T) {
	overlay.TestMutants(t, "../..", "proxy/eventrelay", []overlay.Mutant{{
		Rule: "the end of one run does not end the next", Found: "TestStreamEndAffectsItsOwnRunOnly",
		Decl: "proxy/eventrelay.Relay.RequestEnd",
		Old:  "		if uint32(old>>runNumberShift) != runNumber ||", New: "		if !PLANTED && uint32(old>>runNumberShift) != runNumber ||",
	}})
}
