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
	// highLatency is the wait of a runnable goroutine from which the process is treated as
	// overloaded.
	highLatency = 5 * time.Millisecond
	// latencyMaxAge is how long a measurement is valid. There are none while the process is idle.
	latencyMaxAge = 5 * latencyProbeInterval
)

// schedLatency measures how long a runnable goroutine waits until it runs. Goroutines that the
// runtime poller wakes wait that long; those that a timer wakes do not.
type schedLatency struct {
	waitStart atomic.Int64 // start of the current wait, in Unix nanoseconds; zero means none
	lastWait  atomic.Int64 // duration of the last wait in nanoseconds
	lastEnd   atomic.Int64 // end of the last wait, in Unix nanoseconds
}

// run measures until ctx ends, while the process is busy.
func (sl *schedLatency) run(ctx context.Context, scheduler *clock.Scheduler) {
	ticker := scheduler.NewBusyTicker(latencyProbeInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		start := time.Now()
		sl.waitStart.Store(start.UnixNano())
		runtime.Gosched() // moves this goroutine to the end of the run queue
		sl.record(start, time.Now())
	}
}

// record stores a wait that has ended.
func (sl *schedLatency) record(start, end time.Time) {
	sl.lastWait.Store(int64(end.Sub(start)))
	sl.lastEnd.Store(end.UnixNano())
	sl.waitStart.Store(0)
}

// isHigh reports whether the process is overloaded.
func (sl *schedLatency) isHigh(now time.Time) bool {
	waitStart, nowNanos := sl.waitStart.Load(), now.UnixNano()
	return sl.lastWait.Load() > int64(highLatency) && nowNanos-sl.lastEnd.Load() < int64(latencyMaxAge) || waitStart != 0 && nowNanos-waitStart > int64(highLatency)
}
