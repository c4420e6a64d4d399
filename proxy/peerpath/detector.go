package peerpath

import (
	"iter"
	"net"
	"slices"
	"time"

	"shardway/proxy/connpool"
	"shardway/proxy/h1"
)

// CheckAfter is how long a request runs before the sweep checks the network path to its owner for
// the first time. While a stream of a multiplexed session waits for its response, the kernel has no
// data to retransmit, so after PingAfter the sweep periodically sends a ping on the session.
const (
	CheckAfter = 500 * time.Millisecond
	PingAfter  = 150 * time.Millisecond
)

// Detector detects nodes that have become unreachable while requests wait for their responses. It is used
// within a sweep: one pass of the proxy over its running requests, several times per second. A complete
// sweep visits all connections; other sweeps skip connections of idle WebSockets.
type Detector struct {
	// ConnsInUse yields the connections to other nodes that requests of this sweep use. In a sweep
	// that is not complete, connections of idle WebSockets are missing.
	ConnsInUse iter.Seq[*connpool.Conn]

	sweepComplete bool          // this sweep is complete
	nextSweepAt   time.Duration // when a complete sweep is needed to decide about a suspect path; zero means never
	// silentPeers contains the results of this sweep, and the nodes that were found silent within
	// the last second.
	silentPeers map[*connpool.Pool]peerSilence
	paths       []sharedPath // connections of multiplexed sessions that have been checked in this sweep
}

// sharedPath is the result of this sweep for a connection that several streams share.
type sharedPath struct {
	conn      net.Conn
	pinged    bool
	checked   bool
	state     h1.PathState
	nextCheck time.Duration
}

// path returns the result for the connection of a stream's session.
func (detector *Detector) path(stream connpool.MuxStream) *sharedPath {
	conn := stream.SessionConn()
	for i := range detector.paths {
		if detector.paths[i].conn == conn {
			return &detector.paths[i]
		}
	}
	detector.paths = append(detector.paths, sharedPath{conn: conn})
	return &detector.paths[len(detector.paths)-1]
}

// Ping sends a ping on the session of a stream, once per sweep.
func (detector *Detector) Ping(stream connpool.MuxStream) {
	if path := detector.path(stream); !path.pinged {
		path.pinged = true
		stream.Ping()
	}
}

// check calls h1.Conn.CheckPath, once per sweep for all streams of a session.
func (detector *Detector) check(conn *connpool.Conn) (pathState h1.PathState, nextCheck time.Duration) {
	if conn.Mux == nil {
		return conn.CheckPath()
	}
	path := detector.path(conn.Mux)
	if !path.checked {
		path.checked = true
		path.state, path.nextCheck = conn.CheckPath()
	}
	return path.state, path.nextCheck
}

// peerSilence is whether a node was silent at checkedAt.
type peerSilence struct {
	checkedAt time.Duration
	silent    bool
}

// Begin starts a sweep, and removes outdated results. complete is set if ConnsInUse yields all
// connections. now is the time by the clock of the sweep.
func (detector *Detector) Begin(complete bool, now time.Duration) {
	detector.sweepComplete = complete
	if complete {
		detector.nextSweepAt = 0
	}
	clear(detector.paths)
	detector.paths = detector.paths[:0]
	for peerPool, silence := range detector.silentPeers {
		if !silence.silent || now-silence.checkedAt > time.Second {
			delete(detector.silentPeers, peerPool)
		}
	}
}

// NeedsCompleteSweep reports whether the next sweep must visit all connections, so that IsDead can
// decide about a suspect path.
func (detector *Detector) NeedsCompleteSweep(now time.Duration) bool {
	return detector.nextSweepAt > 0 && now >= detector.nextSweepAt
}

// IsDead reports whether the network path to the node is dead for the request that uses conn. It
// also returns the time of the next check. The caller must have called Begin with the same time now.
func (detector *Detector) IsDead(conn *connpool.Conn, now time.Duration) (dead bool, nextCheck time.Duration) {
	pathState, checkDelay := detector.check(conn)
	nextCheck = now + checkDelay
	if pathState != h1.PathSuspect {
		return pathState == h1.PathDead, nextCheck
	}
	if detector.nextSweepAt == 0 || nextCheck < detector.nextSweepAt {
		detector.nextSweepAt = nextCheck
	}
	// In an incomplete sweep, a connection that has received data from the node may be missing.
	return detector.sweepComplete && detector.isSilent(conn.Pool, now), nextCheck
}

// isSilent reports whether no data has arrived from a node for a second. It requires at least two
// silent connections. Once the node has been found silent, one suffices, because the requests on
// the others have been cancelled.
func (detector *Detector) isSilent(peerPool *connpool.Pool, now time.Duration) bool {
	previous, known := detector.silentPeers[peerPool]
	if known && previous.checkedAt == now {
		return previous.silent
	}
	minProbed := 2
	if previous.silent {
		minProbed = 1
	}
	result := peerSilence{now, allSilent(detector.peerConns(peerPool), minProbed)}
	if detector.silentPeers == nil {
		detector.silentPeers = make(map[*connpool.Pool]peerSilence)
	}
	detector.silentPeers[peerPool] = result
	return result.silent
}

// pathObserver reports when a connection last received data. h1.Conn implements it.
type pathObserver interface {
	SilentFor() (delay time.Duration, probes int, ok bool)
}

// allSilent reports whether no data has arrived for a second on all connections to a node, and at
// least minProbed of them have unanswered probes. Losing probes on several connections at once is
// unlikely to be a coincidence. allSilent stops at the first connection that has received data.
func allSilent(conns iter.Seq[pathObserver], minProbed int) bool {
	probed := 0
	for observer := range conns {
		silent, probes, ok := observer.SilentFor()
		if ok && silent < time.Second {
			return false
		}
		if ok && probes > 0 {
			probed++
		}
	}
	return probed >= minProbed
}

// peerConns returns the connections to the node of the pool: the connections that requests of
// this sweep use, and the idle connections. The connection of a multiplexed session is returned only once.
func (detector *Detector) peerConns(pool *connpool.Pool) iter.Seq[pathObserver] {
	return func(yield func(pathObserver) bool) {
		var seen []net.Conn
		visit := func(conn *connpool.Conn) bool {
			if conn.Mux != nil {
				if slices.Contains(seen, conn.Mux.SessionConn()) {
					return true
				}
				seen = append(seen, conn.Mux.SessionConn())
			}
			return yield(conn)
		}
		for conn := range detector.ConnsInUse {
			if conn.Pool == pool && !visit(conn) {
				return
			}
		}
		pool.EachIdle(visit)
	}
}
