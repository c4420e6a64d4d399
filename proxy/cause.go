package proxy

import (
	"strconv"

	"shardway/proxy/h1"
)

// cause is the reason why another goroutine has cancelled a run.
type cause uint8

const (
	causeNone         cause = iota
	causeDrainTimeout       // CancelShards: the shard moves, and drain-timeout has passed
	causeLease              // CancelUpstream: the lease has ended
	causeStopping           // CancelForStop: this node stops, and the time limit for running requests has passed
	causeOwnerLost          // CancelForwarded: the owner has lost the shard without acknowledgement
	causePathDead           // nothing arrives from the owner, not even acknowledgements
	causeClientGone         // the client has disconnected, or truncated its body
	causeTimeout            // the app has not responded within FirstByteTimeout
	causeShardMoved         // a tunnel or an event stream has outlived the move of its shard by StreamGrace
	causeLeaving            // the same limit for a node that is leaving
	causeMoveTest           // MoveWebSockets: an operator tests the effect of a crash on WebSockets
	causeShutdown           // Shutdown ran out of time, or the context of ServeClients ended
)

// String returns the name of the cause in metrics.
func (c cause) String() string {
	switch c {
	case causeNone:
		return "none"
	case causeDrainTimeout:
		return "draining"
	case causeLease:
		return "lease"
	case causeStopping:
		return "parting"
	case causeOwnerLost:
		return "abandoned"
	case causePathDead:
		return "deaf-path"
	case causeClientGone:
		return "client-gone"
	case causeTimeout:
		return "timeout"
	case causeShardMoved:
		return "moved"
	case causeLeaving:
		return "leaving"
	case causeMoveTest:
		return "rehearsed"
	case causeShutdown:
		return "shutdown"
	}
	return "cause(" + strconv.Itoa(int(c)) + ")"
}

// closeAll aborts connections, so that no truncated message looks complete.
func closeAll(conns []*h1.Conn) {
	for _, conn := range conns {
		_ = conn.Abort() // its goroutine receives an error
	}
}
