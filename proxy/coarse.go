package proxy

import (
	"sync/atomic"
	"time"
)

// coarse is a clock that the sweep sets: good for the age of connections, and
// no more than a load. It is at most sweepEvery behind while a client is
// connected, and set when the first one comes.
type coarse struct{ nanos atomic.Int64 }

func (c *coarse) set()               { c.nanos.Store(time.Now().UnixNano()) }
func (c *coarse) now() time.Duration { return time.Duration(c.nanos.Load()) }
