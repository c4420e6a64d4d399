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

// StoreOptions are the settings of the stores under Raft.
type StoreOptions struct {
	// WriteTimeout is how long a write may take before the disk counts as hung;
	// zero: 2 s, negative: any time.
	WriteTimeout time.Duration
	// Log gets what the snapshot store logs.
	Log zerolog.Logger
}

func (o StoreOptions) hclog() hclog.Logger { return logs.Hclog(o.Log, "snapshots") }

// Stores are what Raft stands on. Raft panics when it cannot save its term or
// read an entry, so an error never gets back to it: the first one is reported
// through Notify, and each call that met one ends when Release is called, and
// its goroutine with it.
type Stores struct {
	// Logs keeps the log; the last 256 entries are read from memory.
	Logs raft.LogStore
	// Stable keeps term and vote.
	Stable raft.StableStore
	// Snapshots keeps the last two snapshots.
	Snapshots raft.SnapshotStore

	g     *guard
	close func() error
}

// OpenStores opens the stores. They are closed with the Dir.
func (d *Dir) OpenStores(o StoreOptions) (*Stores, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done || d.open != nil {
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

// Notify sets who is told: failed once, of the first error; hung with true when
// a write takes longer than WriteTimeout and with false when none does any more.
// Neither may block. It must be called before Raft uses the stores.
func (s *Stores) Notify(failed func(error), hung func(bool)) {
	s.g.failed, s.g.hung = failed, hung
}

// Time sets who is told how long each write of the log, the term and the vote took, until
// it was synced. It must not block. It must be called before Raft uses the stores.
func (s *Stores) Time(took func(time.Duration)) { s.g.told = took }

// Slowest returns how long the longest write of the last 15 to 30 s took.
func (s *Stores) Slowest() time.Duration { return s.g.slowest.late(time.Now()) }

// Err returns the first error of a store, nil while there is none.
func (s *Stores) Err() error { return s.g.first() }

// Release ends the goroutines of calls that failed, and of every call from now
// on: nothing is written any more. It comes before waiting for Raft to stop.
func (s *Stores) Release() { s.g.release() }

// Close releases and closes. It does not wait for a write that hangs.
func (s *Stores) Close() error {
	s.g.release()
	if n := s.g.writing(); n > 0 {
		return fmt.Errorf("disk: raft log left open: %d writes hang", n)
	}
	return s.close()
}
