package h1

import "time"

const (
	// deadAfter is the maximum time for which the peer's kernel may fail to acknowledge data.
	// unackedAfter is the corresponding limit for path.unacked, which does not include the wait for
	// a tail loss probe of about 200 ms or more.
	deadAfter    = time.Second
	unackedAfter = deadAfter - 200*time.Millisecond
	// minRetransmits is the minimum number of retransmissions without an acknowledgement for a dead
	// path. minProbes is the minimum number of unanswered keepalive probes if no data is in flight.
	// They are two so that a single lost segment is not treated as a failure.
	minRetransmits = 2
	minProbes      = 2
	// secondProbeAfter is when CheckPath triggers the second probe. The kernel sends the first
	// probe after about a second. The peer's kernel answers at most one probe per 500 ms
	// (net.ipv4.tcp_invalid_ratelimit).
	secondProbeAfter = deadAfter + 550*time.Millisecond
	// probeTimeout is how long the response to a probe may take.
	probeTimeout = 75 * time.Millisecond
)

// PathState describes the network path to the peer.
type PathState uint8

const (
	// PathAlive means that there is no sign of a failure.
	PathAlive PathState = iota + 1
	// PathSuspect means that no data has arrived for a second, and that a probe is unanswered. The
	// state of other connections to the same peer can confirm the failure earlier.
	PathSuspect
	// PathDead means that the path is dead in one direction or in both.
	PathDead
)

// CheckPath returns the state of the path to the peer, as reported by the kernel, and the time
// until the next check. While the path is alive, that time is about a second.
//
// A path is dead in two cases: retransmitted data was not acknowledged for a second, or no data
// arrived for a second although two probes were sent. A slow peer, or a peer that does not read,
// still acknowledges data.
//
// If no data is in flight, CheckPath needs keepalive probes after one second (TCP_KEEPIDLE).
// The code that dials or accepts the connection must enable them. Without TCP, the path always counts as
// alive. Any goroutine may call CheckPath.
func (c *Conn) CheckPath() (state PathState, nextCheck time.Duration) {
	state, nextCheck = PathAlive, deadAfter
	c.control(func(fd uintptr) {
		info, ok := readPath(fd)
		if !ok {
			return
		}
		var probe bool
		state, probe, nextCheck = info.state()
		if probe {
			sendProbe(fd)
		}
	})
	return state, nextCheck
}

// SilentFor returns the time since data last arrived from the peer, and the number of probes that
// were sent since then. ok is false if there is no open TCP connection. Any goroutine may call it.
func (c *Conn) SilentFor() (d time.Duration, probes int, ok bool) {
	var info path
	c.control(func(fd uintptr) { info, ok = readPath(fd) })
	return info.silent, info.probes, ok
}

// control calls f with the socket, unless the connection has none or is closed.
func (c *Conn) control(f func(fd uintptr)) {
	raw := c.in.rawConn()
	if c.in.mux != nil {
		raw = c.in.mux.RawConn()
	}
	if raw != nil && !c.closed.Load() {
		_ = raw.Control(f) // an error means that the socket is closed
	}
}

// path is the kernel's information about the path to the peer (TCP_INFO).
type path struct {
	silent      time.Duration // time since the last segment arrived
	probes      int           // number of keepalive probes since then
	retransmits int           // number of retransmissions of the oldest unacknowledged bytes
	unacked     time.Duration // minimum time for which those bytes have been in flight
}

// state returns the state of the path and the time until the next check. probe means that another
// probe must be sent to decide.
func (p path) state() (state PathState, probe bool, nextCheck time.Duration) {
	if p.retransmits > 0 {
		return p.stateOfOutgoingDirection(), false, probeTimeout
	}
	const firstProbeDue = deadAfter + probeTimeout // by when the first probe should have been answered
	switch {
	case p.silent < firstProbeDue:
		return PathAlive, false, firstProbeDue - p.silent
	case p.probes == 0:
		return PathAlive, false, probeTimeout
	case p.probes >= minProbes && p.silent >= secondProbeAfter+probeTimeout:
		return PathDead, false, probeTimeout
	}
	needsProbe := p.probes < minProbes && p.silent >= secondProbeAfter
	return PathSuspect, needsProbe, probeTimeout
}

// stateOfOutgoingDirection returns the state of a path on which data is being retransmitted.
// Arriving segments, such as the peer's own probes, do not prove that the outgoing direction works.
func (p path) stateOfOutgoingDirection() PathState {
	if p.retransmits >= minRetransmits && p.unacked >= unackedAfter {
		return PathDead
	}
	return PathAlive
}
