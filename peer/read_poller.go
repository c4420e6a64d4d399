package peer

import (
	"context"
	"sync"
	"time"

	"shardway/internal/clock"
)

// pollerTick is how often the poller checks which reads to interrupt.
const pollerTick = clock.MinInterval

// readPoller periodically interrupts blocked reads of low-latency connections, so that they check the socket themselves
// instead of waiting for an overloaded runtime poller. All connections share one timer, because a deadline for each
// read would wake an idle process dozens of times a second. A clock.Scheduler runs on a timer, which no backlog delays.
type readPoller struct {
	latency schedLatency

	mu    sync.Mutex
	conns map[*lowLatencyConn]struct{}
}

// add makes the poller interrupt the reads of conn until remove is called.
func (rp *readPoller) add(conn *lowLatencyConn) {
	rp.mu.Lock()
	defer rp.mu.Unlock()
	if rp.conns == nil {
		rp.conns = make(map[*lowLatencyConn]struct{})
	}
	rp.conns[conn] = struct{}{}
}

func (rp *readPoller) remove(conn *lowLatencyConn) {
	rp.mu.Lock()
	defer rp.mu.Unlock()
	delete(rp.conns, conn)
}

// run polls until ctx ends. After that, reads depend on the runtime poller alone.
func (rp *readPoller) run(ctx context.Context, scheduler *clock.Scheduler) {
	ticker := scheduler.NewBusyTicker(pollerTick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		rp.interruptDue(time.Now())
	}
}

// interruptDue interrupts every read that is due, rounded to the nearest tick.
func (rp *readPoller) interruptDue(now time.Time) {
	now = now.Add(pollerTick / 2)
	rp.mu.Lock()
	defer rp.mu.Unlock()
	for conn := range rp.conns {
		conn.interruptIfDue(now)
	}
}
