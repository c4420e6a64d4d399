package h1

import "time"

const (
	// deadAfter is for how long the other end's kernel may owe an answer, and
	// unackedAfter as much of it as path.unacked has of that: the wait for a tail loss
	// probe, a fifth of a second or more, comes before those that it counts.
	deadAfter    = time.Second
	unackedAfter = deadAfter - 200*time.Millisecond
	// minRetransmits is how often it has been sent what it does not acknowledge by then, and
	// probes how often it was asked for a word where nothing is on its way: one that
	// got lost decides nothing.
	minRetransmits = 2
	minProbes      = 2
	// secondProbeAfter is when the second probe is asked for. The kernel sends the first after
	// a second, give or take a tick of its coarser timers, and the other end's answers
	// one in half a second (net.ipv4.tcp_invalid_ratelimit).
	secondProbeAfter = deadAfter + 550*time.Millisecond
	// patience is for how long a probe's answer is waited for.
	patience = 75 * time.Millisecond
)

// PathState is what there is to say of the path to the other end.
type PathState uint8

const (
	// PathAlive says that nothing speaks against it.
	PathAlive PathState = iota + 1
	// PathSuspect says that nothing has come for a second, and that a probe is without
	// an answer.
	// What other connections to the same place hear decides it sooner.
	PathSuspect
	// PathDead says that it is dead, in one direction or both.
	PathDead
)

// CheckPath judges the path to the other end, as far as the kernel can tell. It is dead
// when for a second what was sent more than once has not been acknowledged, or
// nothing has come from there though two probes asked for a word. An end that is
// slow, or does not read, acknowledges all the same. Hear also tells after which time
// to ask again: about a second, while all is well.
//
// It takes keepalive probes after a second (TCP_KEEPIDLE) to notice where nothing is
// on its way: whoever makes the connection asks for them. Where there is no TCP to
// ask, all is well. Any goroutine may call it.
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

// Silent returns for how long nothing has come from the other end, and how many
// probes have asked for a word since; false where there is no open TCP connection to
// tell. Any goroutine may call it.
func (c *Conn) Silent() (d time.Duration, probes int, ok bool) {
	var p path
	c.control(func(fd uintptr) { p, ok = readPath(fd) })
	return p.silent, p.probes, ok
}

// control runs f with the socket, unless there is none or it is closed.
func (c *Conn) control(f func(fd uintptr)) {
	raw := c.rawConn()
	if c.in.mux != nil {
		raw = c.in.mux.Path()
	}
	if raw != nil && !c.closed.Load() {
		_ = raw.Control(f) // of a closed one there is nothing to say
	}
}

// path is what the kernel knows of the way to the other end.
type path struct {
	silent  time.Duration // since the last segment that came
	probes  int           // since then
	resent  int           // how often the first unacknowledged bytes were sent again
	unacked time.Duration // for how long, at least, they have been on their way
}

// state says what to think of the path, whether it takes another probe to tell, and
// when to look again.
func (p path) state() (h PathState, probe bool, again time.Duration) {
	switch {
	case p.resent > 0:
		// What comes meanwhile, as the other end's own probes do, says nothing of the
		// way there.
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
