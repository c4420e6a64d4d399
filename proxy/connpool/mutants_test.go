package connpool

import (
	"testing"

	"shardway/internal/overlay"
)

// Tests of package proxy find further mutants of this package.
func TestEachMutantFailsATest(t *testing.T) {
	overlay.TestMutants(t, "../..", "proxy/connpool", []overlay.Mutant{
		{
			Rule: "a stream for WebSockets is not given to a request", Found: "TestWebSocketSessionsServeWebSocketsOnly",
			Decl: "proxy/connpool.Pool.assign", Old: "	if conn.SingleUse {\n", New: "	if conn.SingleUse && !PLANTED {\n",
		},
		{
			Rule: "and is not opened for one", Found: "TestWebSocketSessionsServeWebSocketsOnly",
			Decl: "proxy/connpool.dialCounts.nextOpensStream", Old: "waitingRequests <= dialsForRequests", New: "PLANTED || waitingRequests <= dialsForRequests",
		},
	})
}
