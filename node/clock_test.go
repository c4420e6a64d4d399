package node_test

import (
	"sync"
	"time"

	"shardway/internal/clock"
	"shardway/node"
)

// hostClock is the clock of one process. It runs at its own rate, and does not return while the process is stopped. Half of the calls that
// were made before a stop return the time from before it, as if the process had been stopped right after it had read the clock.
type hostClock struct {
	rate   float64
	origin time.Time

	mu    sync.Mutex
	stood chan struct{} // closed when the process continues; nil while it runs
	asked int
}

var _ clock.Clock = (*hostClock)(nil)

func newClock(rate float64) *hostClock { return &hostClock{rate: rate, origin: time.Now()} }

// runsBy gives a process its own clock, which stops together with the process.
func (p *process) runsBy(o *node.Options, c *hostClock) { p.clock, o.Clock = c, c }

// Now returns the same time as Precise.
func (c *hostClock) Now() time.Duration { return c.Precise() }

// Precise returns the time of the clock. It blocks while the process is stopped.
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

// freeze stops the process when it reads the clock the next time.
func (c *hostClock) freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stood == nil {
		c.stood = make(chan struct{})
	}
}

// thaw lets the process continue.
func (c *hostClock) thaw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stood != nil {
		close(c.stood)
		c.stood = nil
	}
}
