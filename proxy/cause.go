package proxy

import (
	"strconv"

	"shardway/proxy/h1"
)

// cause says why a running exchange was cut from outside its goroutine.
type cause uint8

const (
	causeNone      cause = iota
	causeDrain           // Cut: its shard moves and drain_timeout is over
	causeLease           // CutUpstream: the lease is long over
	causeParting         // CutParting: this node has let it run for as long as it may
	causeAbandon         // Abandon: the owner lost the shard without a word
	causePathDead        // nothing comes from the owner any more, not even an acknowledgement
	causeGone            // the client left, or broke off its body
	causeTimeout         // the app let FirstByteTimeout pass
	causeMoved           // a tunnel or an event stream outlived its shard by StreamGrace
	causeLeaving         // the same, but it is its node that is leaving
	causeRehearsed       // BreakSockets: an operator tries what a crash does to sockets
	causeShutdown        // Shutdown ran out of time, or the context of ServeClients ended
)

// String returns the word that stands in metrics.
func (c cause) String() string {
	switch c {
	case causeNone:
		return "none"
	case causeDrain:
		return "draining"
	case causeLease:
		return "lease"
	case causeParting:
		return "parting"
	case causeAbandon:
		return "abandoned"
	case causePathDead:
		return "deaf-path"
	case causeGone:
		return "client-gone"
	case causeTimeout:
		return "timeout"
	case causeMoved:
		return "moved"
	case causeLeaving:
		return "leaving"
	case causeRehearsed:
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
		_ = c.Cut() // its goroutine meets the error
	}
}
