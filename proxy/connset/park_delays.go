package connset

import (
	"sync/atomic"
	"time"
)

// parkAfter is how long a client connection must be idle before it is parked. For a connection that was
// parked before, and whose client sent the next request soon, the time is ReturnSoon.
const parkAfter = time.Second

// ParkDelays contains how long a client connection must be idle before it is parked. Tests change the
// delays. Any goroutine may use it.
type ParkDelays struct {
	Normal atomic.Int64 // in nanoseconds
	// AfterReturn is the delay of a connection that was parked before, if its client sent the next
	// request soon, in nanoseconds.
	AfterReturn atomic.Int64
}

// Init sets the default delays.
func (delays *ParkDelays) Init() {
	delays.Normal.Store(int64(parkAfter))
	delays.AfterReturn.Store(int64(ReturnSoon))
}

// Delay returns how long a connection must be idle. returnedSoon is set if it was parked before, and its client
// sent the next request soon.
func (delays *ParkDelays) Delay(returnedSoon bool) time.Duration {
	if returnedSoon {
		return time.Duration(delays.AfterReturn.Load())
	}
	return time.Duration(delays.Normal.Load())
}
