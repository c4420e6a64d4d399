package proxy

import (
	"errors"
	"sync/atomic"
	"time"

	"shardway/proxy/h1"
)

// A WebSocket may be idle for days. A direction that has nothing to pass on for a while parks:
// its goroutine ends. h1.Conn starts another goroutine when data arrives on the socket
// (callbackWatcher) or on the multiplexed stream, when the connection is closed, or when another
// goroutine sends a request to the relay. All state of the direction is in the relay, and
// nothing is buffered.
//
// After a direction has parked, it belongs to the next goroutine. The goroutine that has parked
// it must not use the relay any more.

// direction is the state of one direction of a relay.
type direction struct {
	// lastActivity is when the direction last passed something on, by the clock of the server, or
	// activeNow while it does so.
	lastActivity atomic.Int64

	parkDelay time.Duration // idle time before the direction parks; zero means that it does not park
	parkedAt  time.Duration // when it parked, by the clock of the server; zero means that it has not
	wake      func()        // starts another goroutine for the direction
}

// parkDelay returns how long a direction that reads from conn must be idle before it parks.
func (l *webSocketRelay) parkDelay(conn *h1.Conn) time.Duration {
	if !conn.Parks() {
		return 0
	}
	return time.Duration(l.s.parkAfter.Load())
}

// wakeFunc returns a function that continues a parked direction with f in another goroutine. It
// does not block.
func (l *webSocketRelay) wakeFunc(f func()) func() {
	goOn := func() {
		l.countParked(-1)
		f()
	}
	return func() {
		l.c.goroutines.Go(goOn)
		l.c.goroutines.Done() // a parked direction is counted as a goroutine
	}
}

// runDirection runs a direction that begins or was woken. If it returns true, the direction has
// parked, and belongs to the goroutine that wakes it. Otherwise it has ended.
func (l *webSocketRelay) runDirection(direction func() (parked bool), h *direction) (parked bool) {
	if h.parkedAt != 0 {
		h.parkDelay = time.Duration(l.s.parkAfter.Load())
		if l.s.clock.now()-h.parkedAt < parkAfterReturn {
			h.parkDelay = time.Duration(l.s.parkSoon.Load())
		}
		h.parkedAt = 0
	}
	if !l.s.copySafely(func() bool { parked = direction(); return true }) {
		l.abortBoth()
	}
	return parked
}

// countParked adds n to the number of parked directions.
func (l *webSocketRelay) countParked(n int) {
	l.s.webSockets.parkedDirections.Add(int32(n))
	l.s.conns.markQuiescent(l.c, n)
}

// park parks a direction that reads from conn and was idle for its parkDelay. It reports false if
// the direction continues.
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
		h.parkDelay = time.Duration(s.parkSoon.Load()) // the direction tries again later
	}
	return false
}
