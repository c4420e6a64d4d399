package disk

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"shardway/node/logs"
)

const (
	maxSnapshots    = 2
	logCacheEntries = 256
	lockTimeout     = time.Second
	writeTimeout    = 2 * time.Second
)

// StoreOptions are the settings of the Raft stores.
type StoreOptions struct {
	// WriteTimeout is how long a write may take before the disk counts as hung. Zero means 2 s, and
	// a negative value no limit.
	WriteTimeout time.Duration
	// Log receives the messages of the snapshot store.
	Log zerolog.Logger
}

// hclog returns the logger of the snapshot store.
func (o StoreOptions) hclog() hclog.Logger { return logs.Hclog(o.Log, "snapshots") }

// Stores are the Raft stores. Raft panics if it cannot save its term or read an entry, so it never
// gets an error. The first error is reported through the callback of SetCallbacks. Every call that
// fails blocks until Release and then exits its goroutine.
type Stores struct {
	// Logs is the Raft log. The last 256 entries are read from memory.
	Logs raft.LogStore
	// Stable contains the term and the vote.
	Stable raft.StableStore
	// Snapshots contains the last two snapshots.
	Snapshots raft.SnapshotStore

	guard *guard
	close func() error
}

// OpenStores opens the stores. Close of the Dir closes them.
func (d *Dir) OpenStores(options StoreOptions) (*Stores, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.openStores != nil {
		return nil, errors.New("disk: stores are open already, or the directory is closed")
	}
	raw, err := d.backend.openStores(options)
	if err != nil {
		return nil, err
	}
	stores, err := newStores(displayDir(d.backend), raw, options)
	if err != nil {
		return nil, errors.Join(err, raw.close())
	}
	d.openStores = stores
	return stores, nil
}

// newStores adds the guard and the cache to the stores of a directory. dir is the path for error messages.
func newStores(dir string, raw rawStores, options StoreOptions) (*Stores, error) {
	timeout := options.WriteTimeout
	if timeout == 0 {
		timeout = writeTimeout
	}
	guarded := &guard{dir: dir, writeTimeout: timeout, released: make(chan struct{})}
	cached, err := raft.NewLogCache(logCacheEntries, &logStore{guard: guarded, store: raw.logs})
	if err != nil {
		return nil, fmt.Errorf("disk: %w", err)
	}
	return &Stores{
		Logs:      cached,
		Stable:    newStableStore(guarded, raw.stable),
		Snapshots: &snapshotStore{guard: guarded, store: raw.snapshots},
		guard:     guarded,
		close:     raw.close,
	}, nil
}

// SetCallbacks sets two callbacks. onFailure is called once, with the first error. onStall is
// called with true when a write takes longer than WriteTimeout, and with false once no write does.
// Neither may block. SetCallbacks must be called before Raft uses the stores.
func (s *Stores) SetCallbacks(onFailure func(error), onStall func(bool)) {
	s.guard.onFailure, s.guard.onStall = onFailure, onStall
}

// SetWriteObserver sets a callback for the duration of each write of the log, the term and the vote,
// including the sync. It must not block. SetWriteObserver must be called before Raft uses the
// stores.
func (s *Stores) SetWriteObserver(observe func(time.Duration)) { s.guard.onWrite = observe }

// SlowestWrite returns the duration of the longest write in the last 15 to 30 s.
func (s *Stores) SlowestWrite() time.Duration { return s.guard.slowestWrite.longest(time.Now()) }

// Err returns the first error of a store, or nil.
func (s *Stores) Err() error { return s.guard.firstError() }

// Release exits the goroutines of failed calls and of all later calls, so nothing is
// written from now on. Call it before waiting for Raft to stop.
func (s *Stores) Release() { s.guard.release() }

// Close releases and closes the stores. It does not wait for a hung write.
func (s *Stores) Close() error {
	s.guard.release()
	if pending := s.guard.pendingWrites(); pending > 0 {
		return fmt.Errorf("disk: raft log left open: %d writes hang", pending)
	}
	return s.close()
}
