package proxy

import (
	"errors"
	"sync/atomic"
	"time"

	"shardway/proxy/h1"
)

// A WebSocket may be idle for days. A direction of a relay that has had no data for a while parks:
// its goroutine exits. h1.Conn starts another goroutine for the direction in these cases:
//
//   - data arrives on the socket (netpoll.Watcher) or on the multiplexed stream
//   - the connection is closed
//   - another goroutine sets a bit in the relay's requests
//
// The complete state of the direction is in the relay, and no data is buffered.
//
// After a direction has parked, it belongs to the goroutine that wakes it. The goroutine that has
// parked the direction must not use the relay any more.

// direction is the state of one direction of a relay.
type direction struct {
	// lastActivity is when the direction last copied data, by the clock of the server. It is
	// activeNow while the direction is copying.
	lastActivity atomic.Int64

	parkDelay time.Duration // idle time before the direction parks; zero means that it does not park
	parkedAt  time.Duration // when the direction parked, by the clock of the server; zero means that it was not parked since the last start
	wake      func()        // starts another goroutine for the direction
}

// parkDelay returns how long a direction that reads from conn must be idle before it parks.
func (l *webSocketRelay) parkDelay(conn *h1.Conn) time.Duration {
	if !conn.CanPark() || l.server.options.Disable.Parking {
		return 0
	}
	return time.Duration(l.server.parkAfter.Load())
}

// wakeFunc returns a function that continues a parked direction with f in another goroutine. The
// returned function does not block.
func (l *webSocketRelay) wakeFunc(f func()) func() {
	goOn := func() {
		l.countParked(-1)
		f()
	}
	return func() {
		l.clientConn.goroutines.Go(goOn)
		l.clientConn.goroutines.Done() // undoes the Add in park, which counts a parked direction as a goroutine
	}
}

// runDirection runs a direction that has started or was woken. It returns true if the direction has
// parked, and false if it has ended.
func (l *webSocketRelay) runDirection(direction func() (parked bool), h *direction) (parked bool) {
	if h.parkedAt != 0 {
		h.parkDelay = time.Duration(l.server.parkAfter.Load())
		if l.server.clock.Now()-h.parkedAt < parkAfterReturn {
			h.parkDelay = time.Duration(l.server.parkSoon.Load())
		}
		h.parkedAt = 0
	}
	if !l.server.copySafely(func() bool { parked = direction(); return true }) {
		l.abortBoth()
	}
	return parked
}

// countParked adds n to the number of parked directions.
func (l *webSocketRelay) countParked(n int) {
	l.server.webSockets.parkedDirections.Add(int32(n))
	l.server.conns.markQuiescent(l.clientConn, n)
}

// parkDirection parks a direction that reads from conn and has been idle for its parkDelay. It
// returns false if the direction must continue.
func (l *webSocketRelay) parkDirection(h *direction, conn *h1.Conn) bool {
	s, hands := l.server, l.clientConn.goroutines
	h.parkedAt = max(s.clock.Now(), 1)
	l.countParked(1)
	hands.Add(1)
	err := conn.Park(&s.idleSockets, h.wake)
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
