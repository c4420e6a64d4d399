package wsrelay

import (
	"errors"
	"sync/atomic"
	"time"

	"shardway/internal/netpoll"
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
// A parked direction belongs to the goroutine that wakes it. The goroutine that parked it must no
// longer use the relay.

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
func (relay *Relay) parkDelay(conn *h1.Conn) time.Duration {
	if !conn.CanPark() || relay.shared.ParkingDisabled {
		return 0
	}
	return relay.shared.ParkDelay(false)
}

// wakeFunc returns the function that the poller calls when data arrives for a parked direction. It
// starts a goroutine that runs fn, and does not block.
func (relay *Relay) wakeFunc(fn func()) func() {
	resume := func() {
		relay.onParked(-1)
		fn()
	}
	return func() {
		relay.goroutines.Go(resume)
		relay.goroutines.Done() // undo the Add in parkDirection, which counts a parked direction as a goroutine
	}
}

// runDirection runs copyData for a direction that has started or was woken. It returns true if the
// direction has parked, and false if it has ended.
func (relay *Relay) runDirection(copyData func() (parked bool), dir *direction) (parked bool) {
	if dir.parkedAt != 0 {
		returnedSoon := relay.shared.Clock.Now()-dir.parkedAt < relay.shared.ReturnedSoon
		dir.parkDelay = relay.shared.ParkDelay(returnedSoon)
		dir.parkedAt = 0
	}
	if !relay.shared.Recover(func() bool { parked = copyData(); return true }) {
		relay.abortBoth()
	}
	return parked
}

// parkDirection parks a direction that reads from conn and has been idle for its parkDelay. It
// returns false if the direction must continue.
func (relay *Relay) parkDirection(dir *direction, conn *h1.Conn) bool {
	dir.parkedAt = max(relay.shared.Clock.Now(), 1)
	relay.onParked(1)
	relay.goroutines.Add(1)
	err := conn.Park(relay.shared.IdleSockets, dir.wake)
	if err == nil {
		return true
	}
	relay.goroutines.Done()
	relay.onParked(-1)
	switch dir.parkedAt = 0; {
	case errors.Is(err, h1.ErrReady):
	case errors.Is(err, netpoll.ErrClosed), errors.Is(err, errors.ErrUnsupported):
		dir.parkDelay = 0
	default:
		dir.parkDelay = relay.shared.ParkDelay(true) // the direction tries again later
	}
	return false
}
