package h1

import "time"

const (
	// deadAfter is how long the peer's kernel may owe an acknowledgement. unackedAfter is the
	// part of it that path.unacked measures: path.unacked does not count the wait for a tail
	// loss probe, which takes a fifth of a second or more and comes first.
	deadAfter    = time.Second
	unackedAfter = deadAfter - 200*time.Millisecond
	// minRetransmits is how often data must have been retransmitted within deadAfter without an
	// acknowledgement. minProbes is how many keepalive probes must be unanswered if no data is
	// in flight. One lost segment does not decide.
	minRetransmits = 2
	minProbes      = 2
	// secondProbeAfter is when CheckPath triggers the second probe. The kernel sends the first
	// one after a second, give or take a tick of its coarse timers. The peer's kernel answers
	// at most one probe in half a second (net.ipv4.tcp_invalid_ratelimit).
	secondProbeAfter = deadAfter + 550*time.Millisecond
	// patience is how long the answer to a probe may take.
	patience = 75 * time.Millisecond
)

// PathState describes the network path to the peer.
type PathState uint8

const (
	// PathAlive means that there is no sign of a failure.
	PathAlive PathState = iota + 1
	// PathSuspect means that nothing has arrived for a second, and that a probe is unanswered.
	// Other connections to the same peer can decide it sooner.
	PathSuspect
	// PathDead means that the path is dead in one direction or in both.
	PathDead
)

// CheckPath returns the state of the path to the peer as far as the kernel knows it, and the
// time after which to check again: about a second while the path is alive.
//
// A path is dead if, for a second, retransmitted data was not acknowledged, or nothing arrived
// although two probes were sent. A peer that is slow or does not read still acknowledges.
//
// CheckPath needs keepalive probes after one second (TCP_KEEPIDLE) if no data is in flight; the
// caller that makes the connection must enable them. Without TCP the path counts as alive. Any
// goroutine may call CheckPath.
func (c *Conn) CheckPath() (h PathState, again time.Duration) {
	h, again = PathAlive, deadAfter
	c.control(func(fd uintptr) {
		p, ok := readPath(fd)
		if !ok {
			return
		}
		var probe bool
		h, probe, again = p.state()
		if probe {
			sendProbe(fd)
		}
	})
	return h, again
}

// Silent returns for how long nothing has arrived from the peer, and how many probes were sent
// since then. ok is false if there is no open TCP connection. Any goroutine may call it.
func (c *Conn) Silent() (d time.Duration, probes int, ok bool) {
	var p path
	c.control(func(fd uintptr) { p, ok = readPath(fd) })
	return p.silent, p.probes, ok
}

// control calls f with the socket, unless there is none or it is closed.
func (c *Conn) control(f func(fd uintptr)) {
	raw := c.rawConn()
	if c.in.mux != nil {
		raw = c.in.mux.Path()
	}
	if raw != nil && !c.closed.Load() {
		_ = raw.Control(f) // an error means that the socket is closed
	}
}

// path is what the kernel reports about the path to the peer (TCP_INFO).
type path struct {
	silent  time.Duration // since the last segment arrived
	probes  int           // keepalive probes since then
	resent  int           // retransmissions of the oldest unacknowledged bytes
	unacked time.Duration // minimum time for which those bytes have been in flight
}

// state returns the state of the path, whether another probe is needed to decide, and when to
// check again.
func (p path) state() (h PathState, probe bool, again time.Duration) {
	switch {
	case p.resent > 0:
		// Segments that arrive meanwhile, such as the peer's own probes, do not prove that the
		// outgoing direction works.
		if p.resent >= minRetransmits && p.unacked >= unackedAfter {
			return PathDead, false, patience
		}
		return PathAlive, false, patience
	case p.silent < deadAfter+patience:
		return PathAlive, false, deadAfter + patience - p.silent
	case p.probes == 0:
		return PathAlive, false, patience
	case p.probes >= minProbes && p.silent >= secondProbeAfter+patience:
		return PathDead, false, patience
	}
	return PathSuspect, p.probes < minProbes && p.silent >= secondProbeAfter, patience
}
