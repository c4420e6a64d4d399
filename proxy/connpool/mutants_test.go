package connpool

import (
	"testing"

	"shardway/internal/overlay"
	"shardway/internal/raceflag"
)

// mutants returns the mutants that the tests of this package find. Tests of package proxy find further ones.
func mutants() []overlay.Mutant {
	return []overlay.Mutant{
		{
			Rule: "a stream for WebSockets is not given to a request", Found: "TestWebSocketSessionsServeWebSocketsOnly",
			Decl: "proxy/connpool.Pool.assign", Old: "	if conn.SingleUse {\n", New: "	if conn.SingleUse && !PLANTED {\n",
		},
		{
			Rule: "and is not opened for one", Found: "TestWebSocketSessionsServeWebSocketsOnly",
			Decl: "proxy/connpool.dialCounts.nextOpensStream", Old: "waitingRequests <= dialsForRequests", New: "PLANTED || waitingRequests <= dialsForRequests",
		},
	}
}

func TestEachMutantFailsATest(t *testing.T) {
	if testing.Short() || raceflag.Detector {
		t.Skip("builds the package with mutants, and without the race detector")
	}
	overlay.TestMutants(t, "../..", "proxy/connpool", mutants())
}
