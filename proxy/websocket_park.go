package proxy

import (
	"errors"
	"sync/atomic"
	"time"

	"shardway/proxy/h1"
)

// A leg may be idle for days. So each direction that has nothing to carry for a while parks: its
// goroutine ends, and the next one begins where that stood, as soon as its h1.Conn says so:
// something has come, by a socket (roost) or a lane, or somebody has closed the connection or
// asks the leg for something. What the direction knows is in the leg, and nothing is buffered.
//
// From the moment it has parked a direction is the next goroutine's: who has parked it touches
// nothing of the leg any more.

// direction is what a direction knows of its parking, and when it last had something to carry.
type direction struct {
	// lastActivity is when it was done with that, by the server's clock, and passing while it is at it.
	lastActivity atomic.Int64

	parkDelay time.Duration // for how long it waits first; zero: it does not park
	parkedAt  time.Duration // when it parked, by the server's clock; zero: it has not
	wake      func()        // has another goroutine go on
}

// parkDelay is for how long a direction that reads from conn waits before it parks.
func (l *webSocketRelay) parkDelay(conn *h1.Conn) time.Duration {
	if !conn.Parks() {
		return 0
	}
	return time.Duration(l.s.parkAfter.Load())
}

// wakeFunc returns what has a direction that has parked carried on by f. It does not wait.
func (l *webSocketRelay) wakeFunc(f func()) func() {
	goOn := func() {
		l.countParked(-1)
		f()
	}
	return func() {
		l.c.goroutines.Go(goOn)
		l.c.goroutines.Done() // who is parked counts, too
	}
}

// runDirection carries in one direction, which begins, or has been woken. Parked means that it goes
// on when it is woken again, and is another one's; else it is over.
func (l *webSocketRelay) runDirection(direction func() (parked bool), h *direction) (parked bool) {
	if h.parkedAt != 0 {
		h.parkDelay = time.Duration(l.s.parkAfter.Load())
		if l.s.clock.now()-h.parkedAt < parkAfterReturn {
			h.parkDelay = time.Duration(l.s.parkSoon.Load())
		}
		h.parkedAt = 0
	}
	if !l.s.carrySafely(func() bool { parked = direction(); return true }) {
		l.cutBoth()
	}
	return parked
}

// countParked counts the directions that are parked.
func (l *webSocketRelay) countParked(n int) {
	l.s.sockets.parked.Add(int32(n))
	l.s.conns.markQuiescent(l.c, n)
}

// park parks a direction that reads from conn and has waited in vain. False: it goes on.
func (l *webSocketRelay) park(h *direction, conn *h1.Conn) bool {
	s, hands := l.s, l.c.goroutines
	h.parkedAt = max(s.clock.now(), 1)
	l.countParked(1)
	hands.Add(1)
	err := conn.Park(&s.callbackWatcher, h.wake)
	if err == nil {
		return true
	}
	hands.Done()
	l.countParked(-1)
	switch h.parkedAt = 0; {
	case errors.Is(err, h1.ErrReady):
	case isPermanent(err):
		h.parkDelay = 0
	default:
		h.parkDelay = time.Duration(s.parkSoon.Load()) // it is tried again
	}
	return false
}
