package coarsetime

import (
	"sync/atomic"
	"time"
)

// Resolution is the interval at which the owner of a Clock updates it, so the time of the clock is
// late by up to Resolution.
const Resolution = 50 * time.Millisecond

// Clock is a clock that shows the time of its last update. Reading it costs one atomic load. Times
// are measured from one second before its start, because zero means never.
type Clock struct {
	origin time.Time
	nanos  atomic.Int64
}

// Start starts the clock. The caller must call it before it shares the clock.
func (c *Clock) Start(now time.Time) {
	c.origin = now.Add(-time.Second)
	c.Update(now)
}

// Update sets the clock to now.
func (c *Clock) Update(now time.Time) { c.nanos.Store(int64(c.At(now))) }

// Now returns the time of the last update.
func (c *Clock) Now() time.Duration { return time.Duration(c.nanos.Load()) }

// Exact returns the current time, independently of updates.
func (c *Clock) Exact() time.Duration { return time.Since(c.origin) }

// At returns the time of the clock at the system time t.
func (c *Clock) At(t time.Time) time.Duration { return t.Sub(c.origin) }

// SystemTime returns the system time at which the clock showed t.
func (c *Clock) SystemTime(t time.Duration) time.Time { return c.origin.Add(t) }
