package h1

import "time"

const (
	// deafAfter is for how long the other end's kernel may owe an answer.
	deafAfter = time.Second
	// resends is how often it has been sent what it does not acknowledge by then, and
	// probes how often it was asked for a word where nothing is on its way: one that
	// got lost decides nothing.
	resends = 2
	probes  = 2
	// askAfter is when the second probe is asked for. The kernel sends the first after
	// a second, give or take a tick of its coarser timers, and the other end's answers
	// one in half a second (net.ipv4.tcp_invalid_ratelimit).
	askAfter = deafAfter + 550*time.Millisecond
	// patience is for how long a probe's answer is waited for.
	patience = 75 * time.Millisecond
)

// Hear reports whether the path to the other end is dead in one direction or both,
// as far as the kernel can tell: for a second what was sent more than once has not
// been acknowledged, or nothing has come from there though several probes asked for
// a word. An end that is slow, or does not read, acknowledges all the same. Hear also
// tells after which time to ask again: about a second, while all is well.
//
// It takes keepalive probes after a second (TCP_KEEPIDLE) to notice where nothing is
// on its way: whoever makes the connection asks for them. The answer is false where
// there is no TCP to ask. Any goroutine may call it.
func (c *Conn) Hear() (deaf bool, again time.Duration) {
	raw := c.rawConn()
	if raw == nil || c.closed.Load() {
		return false, deafAfter
	}
	again = deafAfter
	_ = raw.Control(func(fd uintptr) { // a closed one is not deaf
		p, ok := pathOf(fd)
		if !ok {
			return
		}
		var ask bool
		deaf, ask, again = p.judge()
		if ask {
			askPath(fd)
		}
	})
	return deaf, again
}

// path is what the kernel knows of the way to the other end.
type path struct {
	silent  time.Duration // since the last segment that came
	probes  int           // since then
	resent  int           // how often the first unacknowledged bytes were sent again
	unacked time.Duration // for how long, at least, they have been on their way
}

// judge says whether the path is dead, whether it takes another probe to tell, and
// when to look again.
func (p path) judge() (deaf, ask bool, again time.Duration) {
	switch {
	case p.resent > 0:
		// What comes meanwhile, as the other end's own probes do, says nothing of the
		// way there.
		return p.resent >= resends && p.unacked >= deafAfter, false, patience
	case p.silent < deafAfter+patience:
		return false, false, deafAfter + patience - p.silent
	case p.probes >= probes:
		return p.silent >= askAfter+patience, false, patience
	case p.silent < askAfter:
		return false, false, askAfter - p.silent
	}
	return false, p.probes > 0, patience
}
