package proxy

import (
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// coarse is a clock that the sweep sets: good for the age of connections and
// requests, and no more than a load. It is at most sweepEvery behind while a client
// is connected, and set when the first one comes. It counts from its start by the
// monotonic clock: the machine's date may be set anew, and nobody is late by that.
type coarse struct {
	origin time.Time
	nanos  atomic.Int64
}

// start begins to count at now, and at one second: zero stands for never.
func (c *coarse) start(now time.Time) {
	c.origin = now.Add(-time.Second)
	c.set(now)
}

// set makes it now, as time.Now has it.
func (c *coarse) set(now time.Time) { c.nanos.Store(int64(now.Sub(c.origin))) }

func (c *coarse) now() time.Duration { return time.Duration(c.nanos.Load()) }

// exact returns the time of this moment, for which it looks at the machine's clock.
func (c *coarse) exact() time.Duration { return time.Since(c.origin) }

// at returns when it showed that.
func (c *coarse) at(since time.Duration) time.Time { return c.origin.Add(since) }

// tick sets the clock, and makes the date anew when the second has changed.
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

// date returns the value of a Date header, at most a second and a sweep old.
func (s *Server) date() []byte { return *s.now.Load() }
