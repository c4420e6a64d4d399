package peer

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"shardway/internal/clock"
)

const (
	probeEvery = 20 * time.Millisecond
	// longBacklog is how long a goroutine that is ready waits for its turn in a process
	// that is behind.
	longBacklog = 5 * time.Millisecond
)

// backlog measures for how long a goroutine that is ready waits for its turn, behind all
// that are: what the poller wakes waits so, and what a timer wakes does not.
type backlog struct {
	since  atomic.Int64 // when the wait began that is under way, in Unix nanoseconds; zero: none is
	waited atomic.Int64 // the last one
}

// run measures until ctx ends.
func (l *backlog) run(ctx context.Context, p *clock.Pulse) {
	t := p.Every(probeEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		begun := time.Now()
		l.since.Store(begun.UnixNano())
		runtime.Gosched() // to the end of the line
		l.waited.Store(int64(time.Since(begun)))
		l.since.Store(0)
	}
}

// long reports that the process is behind.
func (l *backlog) long(now time.Time) bool {
	since := l.since.Load()
	return l.waited.Load() > int64(longBacklog) || since != 0 && now.UnixNano()-since > int64(longBacklog)
}
