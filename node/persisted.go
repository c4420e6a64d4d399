package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// persistAgain is the pause after a write that failed.
const persistRetryPause = time.Second

// errDiskStalled reports a write that had not ended raftStop after the end of run's context.
var errDiskStalled = errors.New("disk stalled")

// persisted is a small value of the data directory that changes rarely. run writes the newest
// value, so no caller of the other methods waits for a disk that hangs. Those methods may be
// called from any goroutine, also before run and after it.
type persisted[V comparable] struct {
	name  string // the value, for the log
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

// set has v written soon.
func (p *persisted[V]) set(v V) { p.update(func(V) V { return v }) }

// update has written what f makes of the newest value. f must not call p.
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

// run writes values until ctx ends, and then the last one. It does not wait for a disk that
// hangs for more than raftStop after the end of ctx.
func (p *persisted[V]) run(ctx context.Context) {
	var lastErr error
	for ended := false; !ended && !errors.Is(lastErr, errDiskStalled); {
		var retry <-chan time.Time
		if lastErr != nil {
			retry = time.After(persistRetryPause)
		}
		dirty := p.dirty
		if lastErr != nil {
			dirty = nil // the next try writes it, too
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

// store writes v and returns why it could not. failing is the result of the write before.
func (p *persisted[V]) store(ctx context.Context, v V, lastErr error) error {
	written := make(chan error, 1)
	go func() { written <- p.write(v) }() // it ends when the disk goes on
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
