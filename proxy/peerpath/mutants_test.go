package peerpath_test

import (
	"testing"

	"shardway/internal/overlay"
)

func TestEachMutantFailsATest(t *testing.T) {
	overlay.TestMutants(t, "../..", "proxy/peerpath", []overlay.Mutant{
		{
			Rule: "the connection of a session counts once", Found: "TestSessionCountsAsOneWitness",
			Decl: "proxy/peerpath.Detector.peerConns",
			Old:  "				if slices.Contains(seen", New: "				if !PLANTED && slices.Contains(seen",
		},
		{
			Rule: "a suspect path is judged over all connections only", Found: "TestPeerSilenceNeedsCompleteSweep",
			Decl: "proxy/peerpath.Detector.IsDead",
			Old:  "	return detector.sweepComplete && detector.isSilent(", New: "	return (PLANTED || detector.sweepComplete) && detector.isSilent(",
		},
	})
}
