package persist

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/chanutil"
)

const (
	// retryPause is the pause after a failed write.
	retryPause = time.Second
	// stallTimeout is how long Run waits for a stalled disk after its context ends.
	stallTimeout = 3 * time.Second
)

// errDiskStalled reports that a write did not finish within stallTimeout after the context of Run ended.
var errDiskStalled = errors.New("disk stalled")

// Value is a small value in the data directory that changes rarely. Only Run writes to the
// disk, so callers of the other methods never wait for a stalled disk. Those methods may be
// called from any goroutine, also before Run starts and after it returns.
type Value[V comparable] struct {
	name  string // name of the value, for the log
	write func(V) error
	log   zerolog.Logger
	dirty chan struct{} // notified when newest has changed; capacity 1

	// mu protects the following fields. It is never held during a write to the disk.
	mu            sync.Mutex
	newest        V
	stored        V             // the value on the disk
	storedChanged chan struct{} // closed when stored changes
}

// New returns a Value. stored is the value that the data directory contains, and write stores a new one. name is
// the name of the value in the log.
func New[V comparable](name string, stored V, write func(V) error, log zerolog.Logger) *Value[V] {
	return &Value[V]{name: name, write: write, log: log, dirty: make(chan struct{}, 1), newest: stored, stored: stored, storedChanged: make(chan struct{})}
}

// Set schedules v to be written by Run.
func (p *Value[V]) Set(v V) { p.Update(func(V) V { return v }) }

// Update replaces the newest value with f(newest) and schedules the write. f must not call methods of p.
func (p *Value[V]) Update(f func(V) V) {
	p.mu.Lock()
	p.newest = f(p.newest)
	p.mu.Unlock()
	chanutil.Notify(p.dirty)
}

// Get returns the value that is on the disk, and a channel that is closed when it changes.
func (p *Value[V]) Get() (stored V, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stored, p.storedChanged
}

// pending returns the newest value, and whether it must be written.
func (p *Value[V]) pending() (newest V, mustWrite bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newest, p.newest != p.stored
}

// Run writes changes until ctx ends, then writes the last one. After ctx ends it waits up to
// stallTimeout for a stalled disk.
func (p *Value[V]) Run(ctx context.Context) {
	var lastErr error
	for {
		dirty := p.dirty
		var retry <-chan time.Time // a nil channel disables its case of the select statement
		if lastErr != nil {
			dirty, retry = nil, time.After(retryPause) // the retry writes the newest value
		}
		isLastWrite := false
		select {
		case <-ctx.Done():
			isLastWrite = true
		case <-dirty:
		case <-retry:
		}
		if newest, mustWrite := p.pending(); mustWrite {
			lastErr = p.store(ctx, newest, lastErr)
		}
		if isLastWrite || errors.Is(lastErr, errDiskStalled) {
			return
		}
	}
}

// store writes v and returns the error of the write. It returns errDiskStalled if ctx has ended and the write
// does not end within stallTimeout after that. lastErr is the result of the previous write: only the first
// of several failures in a row is logged.
func (p *Value[V]) store(ctx context.Context, v V, lastErr error) error {
	written := make(chan error, 1)
	go func() { written <- p.write(v) }() // it ends when the disk responds again
	var err error
	select {
	case err = <-written:
	case <-ctx.Done():
		select {
		case err = <-written:
		case <-time.After(stallTimeout):
			return errDiskStalled
		}
	}
	switch {
	case err == nil:
		p.mu.Lock()
		p.stored = v
		close(p.storedChanged)
		p.storedChanged = make(chan struct{})
		p.mu.Unlock()
	case lastErr == nil:
		p.log.Warn().Err(err).Str("value", p.name).Msg("value not stored, retrying")
	}
	return err
}
