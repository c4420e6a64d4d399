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

// half is what a direction knows of its parking, and when it last had something to carry.
type half struct {
	// spoke is when it was done with that, by the server's clock, and passing while it is at it.
	spoke atomic.Int64

	lag   time.Duration // for how long it waits first; zero: it does not park
	since time.Duration // when it parked, by the server's clock; zero: it has not
	wake  func()        // has another goroutine go on
}

// patience is for how long a direction that reads from conn waits before it parks.
func (l *leg) patience(conn *h1.Conn) time.Duration {
	if !conn.Parks() {
		return 0
	}
	return time.Duration(l.s.parkAfter.Load())
}

// waking returns what has a direction that has parked carried on by f. It does not wait.
func (l *leg) waking(f func()) func() {
	goOn := func() {
		l.rests(-1)
		f()
	}
	return func() {
		l.c.hands.Go(goOn)
		l.c.hands.Done() // who is parked counts, too
	}
}

// carries carries in one direction, which begins, or has been woken. Parked means that it goes
// on when it is woken again, and is another one's; else it is over.
func (l *leg) carries(direction func() (parked bool), h *half) (parked bool) {
	if h.since != 0 {
		h.lag = time.Duration(l.s.parkAfter.Load())
		if l.s.clock.now()-h.since < parkAfterReturn {
			h.lag = time.Duration(l.s.parkSoon.Load())
		}
		h.since = 0
	}
	if !l.s.carrySafely(func() bool { parked = direction(); return true }) {
		l.cutBoth()
	}
	return parked
}

// rests counts the directions that are parked.
func (l *leg) rests(n int) {
	l.s.sockets.parked.Add(int32(n))
	l.s.conns.rest(l.c, n)
}

// park parks a direction that reads from conn and has waited in vain. False: it goes on.
func (l *leg) park(h *half, conn *h1.Conn) bool {
	s, hands := l.s, l.c.hands
	h.since = max(s.clock.now(), 1)
	l.rests(1)
	hands.Add(1)
	err := conn.Park(&s.roost, h.wake)
	if err == nil {
		return true
	}
	hands.Done()
	l.rests(-1)
	switch h.since = 0; {
	case errors.Is(err, h1.ErrReady):
	case isPermanent(err):
		h.lag = 0
	default:
		h.lag = time.Duration(s.parkSoon.Load()) // it is tried again
	}
	return false
}
