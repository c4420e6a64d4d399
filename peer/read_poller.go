package peer

import (
	"context"
	"sync"
	"time"

	"shardway/internal/clock"
)

// grainOfLooks is how often it is looked which read is to look.
const pollerTick = clock.EveryBeat

// looks makes the reads of prompt connections look. A deadline of each read's own, set anew
// for each, would wake an idle process dozens of times a second: here they share what wakes
// it anyway. A pulse is a timer, so no backlog holds it up.
type readPoller struct {
	latency schedLatency

	mu    sync.Mutex
	conns map[*lowLatencyConn]struct{}
}

// add has the reads of c look; drop ends that.
func (rp *readPoller) add(c *lowLatencyConn) {
	rp.mu.Lock()
	defer rp.mu.Unlock()
	if rp.conns == nil {
		rp.conns = make(map[*lowLatencyConn]struct{})
	}
	rp.conns[c] = struct{}{}
}

func (rp *readPoller) remove(c *lowLatencyConn) {
	rp.mu.Lock()
	defer rp.mu.Unlock()
	delete(rp.conns, c)
}

// run returns when ctx ends: reads wait for the poller alone from then on.
func (rp *readPoller) run(ctx context.Context, p *clock.Pulse) {
	t := p.WhileBusy(pollerTick)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		rp.interruptDue(time.Now())
	}
}

// tell has the reads look whose time it is, or will be sooner than at the next beat.
func (rp *readPoller) interruptDue(now time.Time) {
	now = now.Add(pollerTick / 2)
	rp.mu.Lock()
	defer rp.mu.Unlock()
	for c := range rp.conns {
		c.interruptIfDue(now)
	}
}
