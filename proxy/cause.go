package proxy

import (
	"net"
	"strconv"

	"shardway/proxy/h1"
)

// cause says why a running exchange was cut from outside its goroutine.
type cause uint8

const (
	causeNone     cause = iota
	causeDrain          // Cut: its shard moves and drain_timeout is over
	causeLease          // CutUpstream: the lease is long over
	causeAbandon        // Abandon: the owner lost the shard without a word
	causeGone           // the client left, or broke off its body
	causeTimeout        // the app let FirstByteTimeout pass
	causeMoved          // an upgraded connection outlived its shard by StreamGrace
	causeShutdown       // Shutdown ran out of time, or the context of ServeClients ended
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
	case causeAbandon:
		return "abandoned"
	case causeGone:
		return "client-gone"
	case causeTimeout:
		return "timeout"
	case causeMoved:
		return "moved"
	case causeShutdown:
		return "shutdown"
	}
	return "cause(" + strconv.Itoa(int(c)) + ")"
}

// closeAll closes connections in the middle of what they carry. Where there is
// a socket it is reset: an answer that would end with its connection must not
// look whole.
func closeAll(conns []*h1.Conn) {
	for _, c := range conns {
		nc := c.NetConn()
		for {
			below, ok := nc.(interface{ NetConn() net.Conn })
			if !ok {
				break
			}
			nc = below.NetConn()
		}
		if t, ok := nc.(interface{ SetLinger(sec int) error }); ok {
			_ = t.SetLinger(0) // closing is what is left
		}
		_ = c.Close() // its goroutine meets the error
	}
}
