package connset_test

import (
	"testing"

	"shardway/internal/overlay"
)

// mutants returns the mutants that the tests of this package find. Tests of package proxy find further
// ones.
func TestEachMutantFailsATest(t *testing.T) {
	overlay.TestMutants(t, "../..", "proxy/connset", []overlay.Mutant{
		{
			Rule: "a connection is parked after the next visit", Found: "TestConnIsParkedAfterNextVisit",
			Decl: "proxy/connset.Set.awaitNoVisitsLocked", Old: "s.visits > 0 && !timedOut;", New: "s.visits > 0 && !timedOut; timedOut = timedOut || PLANTED",
		},
		{
			Rule: "a WebSocket with one parked direction is swept often", Found: "TestQuiescentWebSocketsAreSweptRarely",
			Decl: "proxy/connset.Set.ChangeParkedDirections", Old: "parked == 2 {", New: "parked == 2 || PLANTED {",
		},
	})
}
