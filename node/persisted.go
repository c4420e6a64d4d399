package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// persistRetryPause is the pause after a failed write.
const persistRetryPause = time.Second

// errDiskStalled means that a write did not end within raftStop after the end of run's context.
var errDiskStalled = errors.New("disk stalled")

// persisted is a small value in the data directory that changes rarely. Only run writes to the
// disk, so callers of the other methods never wait for a stalled disk. Those methods may be
// called from any goroutine, also before run starts and after it returns.
type persisted[V comparable] struct {
	name  string // name of the value, for the log
	write func(V) error
	log   zerolog.Logger
	dirty chan struct{} // cap 1: newest has changed

	// mu protects the following fields. No caller writes to the disk under it.
	mu      sync.Mutex
	newest  V
	stored  V
	changed chan struct{} // closed when stored changes
}

// newPersisted returns the value that an earlier process of this node stored.
func newPersisted[V comparable](what string, stored V, write func(V) error, log zerolog.Logger) *persisted[V] {
	return &persisted[V]{name: what, write: write, log: log, dirty: make(chan struct{}, 1), newest: stored, stored: stored, changed: make(chan struct{})}
}

// set schedules v to be written by run.
func (p *persisted[V]) set(v V) { p.update(func(V) V { return v }) }

// update replaces the newest value by f(newest) and schedules the write. f must not call methods of p.
func (p *persisted[V]) update(f func(V) V) {
	p.mu.Lock()
	p.newest = f(p.newest)
	p.mu.Unlock()
	notify(p.dirty)
}

// get returns the value that is on the disk, and a channel that is closed when it changes.
func (p *persisted[V]) get() (stored V, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stored, p.changed
}

// pending returns the newest value, and whether it must be written.
func (p *persisted[V]) pending() (v V, write bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newest, p.newest != p.stored
}

// run writes changes until ctx ends, then writes the last one. After ctx ends it waits up to
// raftStop for a stalled disk.
func (p *persisted[V]) run(ctx context.Context) {
	var lastErr error
	for ended := false; !ended && !errors.Is(lastErr, errDiskStalled); {
		var retry <-chan time.Time
		if lastErr != nil {
			retry = time.After(persistRetryPause)
		}
		dirty := p.dirty
		if lastErr != nil {
			dirty = nil // the retry writes the newest value
		}
		select {
		case <-ctx.Done():
			ended = true
		case <-dirty:
		case <-retry:
		}
		if v, write := p.pending(); write {
			lastErr = p.store(ctx, v, lastErr)
		}
	}
}

// store writes v and returns the error, or errDiskStalled. lastErr is the result of the previous
// write: only the first of several failures in a row is logged.
func (p *persisted[V]) store(ctx context.Context, v V, lastErr error) error {
	written := make(chan error, 1)
	go func() { written <- p.write(v) }() // it ends when the disk responds again
	var err error
	select {
	case err = <-written:
	case <-ctx.Done():
		select {
		case err = <-written:
		case <-time.After(raftStop):
			return errDiskStalled
		}
	}
	switch {
	case err == nil:
		p.mu.Lock()
		p.stored = v
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
	case lastErr == nil:
		p.log.Warn().Err(err).Str("value", p.name).Msg("value not stored, retrying")
	}
	return err
}
