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
func (relay *webSocketRelay) parkDelay(conn *h1.Conn) time.Duration {
	if !conn.CanPark() || relay.server.options.Disable.Parking {
		return 0
	}
	return time.Duration(relay.server.parkAfter.Load())
}

// wakeFunc returns a function that continues a parked direction with fn in another goroutine. The
// returned function does not block.
func (relay *webSocketRelay) wakeFunc(fn func()) func() {
	resume := func() {
		relay.countParked(-1)
		fn()
	}
	return func() {
		relay.clientConn.goroutines.Go(resume)
		relay.clientConn.goroutines.Done() // undoes the Add in park, which counts a parked direction as a goroutine
	}
}

// runDirection runs a direction that has started or was woken. It returns true if the direction has
// parked, and false if it has ended.
func (relay *webSocketRelay) runDirection(direction func() (parked bool), dir *direction) (parked bool) {
	if dir.parkedAt != 0 {
		dir.parkDelay = time.Duration(relay.server.parkAfter.Load())
		if relay.server.clock.Now()-dir.parkedAt < parkAfterReturn {
			dir.parkDelay = time.Duration(relay.server.parkSoon.Load())
		}
		dir.parkedAt = 0
	}
	if !relay.server.copyRecovering(func() bool { parked = direction(); return true }) {
		relay.abortBoth()
	}
	return parked
}

// countParked adds n to the number of parked directions.
func (relay *webSocketRelay) countParked(n int) {
	relay.server.webSockets.parkedDirections.Add(int32(n))
	relay.server.conns.markQuiescent(relay.clientConn, n)
}

// parkDirection parks a direction that reads from conn and has been idle for its parkDelay. It
// returns false if the direction must continue.
func (relay *webSocketRelay) parkDirection(dir *direction, conn *h1.Conn) bool {
	s, goroutines := relay.server, relay.clientConn.goroutines
	dir.parkedAt = max(s.clock.Now(), 1)
	relay.countParked(1)
	goroutines.Add(1)
	err := conn.Park(&s.idleSockets, dir.wake)
	if err == nil {
		return true
	}
	goroutines.Done()
	relay.countParked(-1)
	switch dir.parkedAt = 0; {
	case errors.Is(err, h1.ErrReady):
	case isPermanent(err):
		dir.parkDelay = 0
	default:
		dir.parkDelay = time.Duration(s.parkSoon.Load()) // the direction tries again later
	}
	return false
}
