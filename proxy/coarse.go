package proxy

import (
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// coarse is a clock that the sweep updates. Reading it costs one atomic load, and its resolution
// suffices for the age of connections and requests. While a client is connected, it is up to
// sweepEvery late; it is also updated when the first client connects. It counts from its start with
// the monotonic clock, so a change of the system time has no effect on timeouts.
type coarse struct {
	origin time.Time
	nanos  atomic.Int64
}

// start starts the clock at one second, because zero means never.
func (c *coarse) start(now time.Time) {
	c.origin = now.Add(-time.Second)
	c.set(now)
}

// set sets the clock to now.
func (c *coarse) set(now time.Time) { c.nanos.Store(int64(now.Sub(c.origin))) }

func (c *coarse) now() time.Duration { return time.Duration(c.nanos.Load()) }

// exact returns the present time of the clock, from the system clock instead of the last update.
func (c *coarse) exact() time.Duration { return time.Since(c.origin) }

// at returns the system time at which the clock showed since.
func (c *coarse) at(since time.Duration) time.Time { return c.origin.Add(since) }

// tick updates the clock, and the Date header if the second has changed.
func (s *Server) tick() {
	now := time.Now()
	s.clock.set(now)
	second := now.Unix()
	if s.second.Swap(second) == second {
		return
	}
	date := fasthttp.AppendHTTPDate(nil, time.Unix(second, 0))
	s.now.Store(&date)
}

// date returns the value of the Date header. It is up to a second and one sweep old.
func (s *Server) date() []byte { return *s.now.Load() }
