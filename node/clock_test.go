package node_test

import (
	"sync"
	"time"

	"shardway/internal/clock"
	"shardway/node"
)

// hostClock is the clock of one process: it runs at a rate of its own, and a
// process that is stopped gets no answer from it. Half of those who asked before
// the stop are told the time from before it afterwards, as one is who was stopped
// right after it had looked.
type hostClock struct {
	rate   float64
	origin time.Time

	mu    sync.Mutex
	stood chan struct{} // closed when the process goes on; nil while it runs
	asked int
}

var _ clock.Clock = (*hostClock)(nil)

func newClock(rate float64) *hostClock { return &hostClock{rate: rate, origin: time.Now()} }

// runsBy gives a process a clock of its own, which stands still with it.
func (p *process) runsBy(o *node.Options, c *hostClock) { p.clock, o.Clock = c, c }

// Now returns the time.
func (c *hostClock) Now() time.Duration { return c.Precise() }

// Precise returns the time.
func (c *hostClock) Precise() time.Duration {
	before := c.read()
	c.mu.Lock()
	stood := c.stood
	c.asked++
	stale := c.asked%2 == 0
	c.mu.Unlock()
	if stood == nil {
		return before
	}
	<-stood
	if stale {
		return before
	}
	return c.read()
}

func (c *hostClock) read() time.Duration {
	return time.Duration(float64(time.Since(c.origin)) * c.rate)
}

// freeze stops the process at its next look at the clock.
func (c *hostClock) freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stood == nil {
		c.stood = make(chan struct{})
	}
}

// thaw lets it go on.
func (c *hostClock) thaw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stood != nil {
		close(c.stood)
		c.stood = nil
	}
}
