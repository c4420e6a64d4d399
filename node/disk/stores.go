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
	snapshotsKept = 2
	logCache      = 256
	lockTimeout   = time.Second
	writeTimeout  = 2 * time.Second
)

// StoreOptions are the settings of the Raft stores.
type StoreOptions struct {
	// WriteTimeout is how long a write may take before the disk counts as hung. Zero means
	// 2 s, a negative value means no limit.
	WriteTimeout time.Duration
	// Log receives the messages of the snapshot store.
	Log zerolog.Logger
}

// hclog returns the logger of the snapshot store.
func (o StoreOptions) hclog() hclog.Logger { return logs.Hclog(o.Log, "snapshots") }

// Stores are the Raft stores. Raft panics if it cannot save its term or read an entry, so
// it never gets an error. The first error is reported through Notify. Every call that fails
// blocks until Release and then exits its goroutine.
type Stores struct {
	// Logs is the Raft log. The last 256 entries are read from memory.
	Logs raft.LogStore
	// Stable contains the term and the vote.
	Stable raft.StableStore
	// Snapshots contains the last two snapshots.
	Snapshots raft.SnapshotStore

	g     *guard
	close func() error
}

// OpenStores opens the stores. Close of the Dir closes them.
func (d *Dir) OpenStores(o StoreOptions) (*Stores, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.open != nil {
		return nil, errors.New("disk: stores are open already, or the directory is closed")
	}
	raw, err := d.b.stores(o)
	if err != nil {
		return nil, err
	}
	s, err := newStores(home(d.b), raw, o)
	if err != nil {
		return nil, errors.Join(err, raw.close())
	}
	d.open = s
	return s, nil
}

// newStores adds the guard and the cache to the stores of a directory. dir is the path for error messages.
func newStores(dir string, raw rawStores, o StoreOptions) (*Stores, error) {
	timeout := o.WriteTimeout
	if timeout == 0 {
		timeout = writeTimeout
	}
	g := &guard{dir: dir, timeout: timeout, released: make(chan struct{})}
	cached, err := raft.NewLogCache(logCache, &logStore{g: g, s: raw.logs})
	if err != nil {
		return nil, fmt.Errorf("disk: %w", err)
	}
	return &Stores{
		Logs:      cached,
		Stable:    newStableStore(g, raw.stable),
		Snapshots: &snapshotStore{g: g, s: raw.snaps},
		g:         g,
		close:     raw.close,
	}, nil
}

// Notify sets two callbacks. failed is called once, with the first error. hung is called
// with true when a write takes longer than WriteTimeout, and with false when no write does
// any more. Neither may block. Notify must be called before Raft uses the stores.
func (s *Stores) Notify(failed func(error), hung func(bool)) {
	s.g.failed, s.g.hung = failed, hung
}

// Time sets a callback for the duration of each write of the log, the term and the vote,
// including the sync. It must not block. Time must be called before Raft uses the stores.
func (s *Stores) Time(took func(time.Duration)) { s.g.onWrite = took }

// Slowest returns the duration of the longest write in the last 15 to 30 s.
func (s *Stores) Slowest() time.Duration { return s.g.slowest.longest(time.Now()) }

// Err returns the first error of a store, or nil.
func (s *Stores) Err() error { return s.g.firstError() }

// Release exits the goroutines of failed calls and of all later calls, so nothing is
// written from now on. Call it before waiting for Raft to stop.
func (s *Stores) Release() { s.g.release() }

// Close releases and closes the stores. It does not wait for a hung write.
func (s *Stores) Close() error {
	s.g.release()
	if n := s.g.pendingWrites(); n > 0 {
		return fmt.Errorf("disk: raft log left open: %d writes hang", n)
	}
	return s.close()
}
