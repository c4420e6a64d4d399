package peer

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"shardway/internal/clock"
)

const (
	latencyProbeInterval = 20 * time.Millisecond
	// longBacklog is how long a goroutine that is ready waits for its turn in a process
	// that is behind.
	highLatency = 5 * time.Millisecond
	// backlogCounts is for how long what was measured counts: nothing is measured while the
	// process is not busy.
	latencyMaxAge = 5 * latencyProbeInterval
)

// backlog measures for how long a goroutine that is ready waits for its turn, behind all
// that are: what the poller wakes waits so, and what a timer wakes does not.
type schedLatency struct {
	waitStart atomic.Int64 // when the wait began that is under way, in Unix nanoseconds; zero: none is
	lastWait  atomic.Int64 // the last one
	lastEnd   atomic.Int64 // when that one did, in Unix nanoseconds
}

// run measures until ctx ends, while the process is busy.
func (sl *schedLatency) run(ctx context.Context, p *clock.Pulse) {
	t := p.WhileBusy(latencyProbeInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		begun := time.Now()
		sl.waitStart.Store(begun.UnixNano())
		runtime.Gosched() // to the end of the line
		sl.record(begun, time.Now())
	}
}

// note notes that a wait has ended.
func (sl *schedLatency) record(begun, ended time.Time) {
	sl.lastWait.Store(int64(ended.Sub(begun)))
	sl.lastEnd.Store(ended.UnixNano())
	sl.waitStart.Store(0)
}

// long reports that the process is behind.
func (sl *schedLatency) isHigh(now time.Time) bool {
	since, at := sl.waitStart.Load(), now.UnixNano()
	return sl.lastWait.Load() > int64(highLatency) && at-sl.lastEnd.Load() < int64(latencyMaxAge) || since != 0 && at-since > int64(highLatency)
}
