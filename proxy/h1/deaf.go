package h1

import "time"

const (
	// deafAfter is how long nothing may come from the other end's kernel while it
	// owes something, and resends is how often it has been reminded by then.
	deafAfter = time.Second
	resends   = 2
	// deafIdle is the same where only keepalive probes are owed, which the kernel
	// sends once a second at most: the second one has been without an answer for
	// half a second then.
	deafIdle = 2500 * time.Millisecond
)

// Deaf reports whether the path to the other end is dead in one direction or both,
// as far as the kernel can tell: it was sent something more than once and has not
// even acknowledged it. An end that is slow, or does not read, acknowledges all the
// same, or says so in answer to a probe. False where there is no TCP to ask. Any
// goroutine may call it.
//
// With nothing on its way it takes keepalive probes to notice: whoever makes the
// connection asks for them.
func (c *Conn) Deaf() bool {
	raw := c.rawConn()
	if raw == nil || c.closed.Load() {
		return false
	}
	var p path
	ok := false
	if raw.Control(func(fd uintptr) { p, ok = pathOf(fd) }) != nil || !ok {
		return false
	}
	return p.unanswered >= resends && p.silent >= deafAfter || p.probes >= resends && p.silent >= deafIdle
}

// path is what the kernel knows of the way to the other end.
type path struct {
	silent     time.Duration // since the last segment that came
	unanswered int           // how often the first unacknowledged bytes were sent again
	probes     int           // probes since the last segment that came
}
