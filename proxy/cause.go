package proxy

import (
	"strconv"

	"shardway/proxy/h1"
)

// cause says why a running exchange was cut from outside its goroutine.
type cause uint8

const (
	causeNone         cause = iota
	causeDrainTimeout       // Cut: its shard moves and drain_timeout is over
	causeLease              // CancelUpstream: the lease is long over
	causeStopping           // CancelForStop: this node has let it run for as long as it may
	causeOwnerLost          // Abandon: the owner lost the shard without a word
	causePathDead           // nothing comes from the owner any more, not even an acknowledgement
	causeClientGone         // the client left, or broke off its body
	causeTimeout            // the app let FirstByteTimeout pass
	causeShardMoved         // a tunnel or an event stream outlived its shard by StreamGrace
	causeLeaving            // the same, but it is its node that is leaving
	causeMoveTest           // MoveWebSockets: an operator tries what a crash does to sockets
	causeShutdown           // Shutdown ran out of time, or the context of ServeClients ended
)

// String returns the word that stands in metrics.
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

// closeAll closes connections in the middle of what they carry, so that nothing
// of it looks whole.
func closeAll(conns []*h1.Conn) {
	for _, c := range conns {
		_ = c.Abort() // its goroutine meets the error
	}
}
