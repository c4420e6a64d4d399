package peer

import (
	"context"
	"sync"
	"time"

	"shardway/internal/clock"
)

// pollerTick is how often the poller checks which reads to interrupt.
const pollerTick = clock.MinInterval

// readPoller periodically interrupts blocked reads of low-latency connections, so that they check the socket themselves.
// An overloaded runtime poller can deliver a heartbeat later than the lease permits (see lowLatencyConn). All connections share one timer, because a deadline for each
// read would wake an idle process dozens of times a second. A clock.Scheduler runs on a timer, which no backlog delays.
type readPoller struct {
	latency schedLatency

	mu    sync.Mutex
	conns map[*lowLatencyConn]struct{}
}

// add makes the poller interrupt the reads of conn until remove is called. An interrupted read starts again, and so
// finds data that the runtime poller has not delivered yet.
func (rp *readPoller) add(conn *lowLatencyConn) {
	rp.mu.Lock()
	defer rp.mu.Unlock()
	if rp.conns == nil {
		rp.conns = make(map[*lowLatencyConn]struct{})
	}
	rp.conns[conn] = struct{}{}
}

// remove makes the reads of conn depend on the runtime poller alone.
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

// interruptDue interrupts every read whose time for a check of the socket is now. Times are rounded to the nearest
// tick, so that a read waits at most half a tick too long.
func (rp *readPoller) interruptDue(now time.Time) {
	now = now.Add(pollerTick / 2)
	rp.mu.Lock()
	defer rp.mu.Unlock()
	for conn := range rp.conns {
		conn.interruptIfDue(now)
	}
}
