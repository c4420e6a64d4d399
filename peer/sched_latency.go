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
	// backlogCounts is for how long what was measured counts: nothing is measured while the
	// process is not busy.
	backlogCounts = 5 * probeEvery
)

// backlog measures for how long a goroutine that is ready waits for its turn, behind all
// that are: what the poller wakes waits so, and what a timer wakes does not.
type backlog struct {
	since  atomic.Int64 // when the wait began that is under way, in Unix nanoseconds; zero: none is
	waited atomic.Int64 // the last one
	ended  atomic.Int64 // when that one did, in Unix nanoseconds
}

// run measures until ctx ends, while the process is busy.
func (l *backlog) run(ctx context.Context, p *clock.Pulse) {
	t := p.WhileBusy(probeEvery)
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
		l.note(begun, time.Now())
	}
}

// note notes that a wait has ended.
func (l *backlog) note(begun, ended time.Time) {
	l.waited.Store(int64(ended.Sub(begun)))
	l.ended.Store(ended.UnixNano())
	l.since.Store(0)
}

// long reports that the process is behind.
func (l *backlog) long(now time.Time) bool {
	since, at := l.since.Load(), now.UnixNano()
	return l.waited.Load() > int64(longBacklog) && at-l.ended.Load() < int64(backlogCounts) || since != 0 && at-since > int64(longBacklog)
}
