package disk

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// errClosed reports a write after Close: another process may have the directory.
var errClosed = errors.New("disk: data directory is closed")

// Dir is an open data directory.
type Dir struct {
	b    backend
	id   identity
	mu   sync.Mutex
	boot uint64
	clus cluster
	lvl  level
	open *Stores
	done bool

	known atomic.Pointer[string] // clus.ID, for who must not wait for the disk

	keeping sync.Mutex // one KeepKnown or Known at a time; before mu
	unread  bool       // known.json is there and could not be read; guarded by keeping
}

// Open opens the data directory at path, makes it if there is none, and counts
// a boot. wantNode is the node id that the operator gave; empty: the stored one,
// or a random one in a new directory. The directory is locked until Close.
func Open(path, wantNode string) (*Dir, error) {
	b, err := openFiles(path)
	if err != nil {
		return nil, err
	}
	if exists(b.path(foundingFile)) {
		return nil, errors.Join(fmt.Errorf("disk: data directory %q was being recovered or restored when that was interrupted: run the same `shardway recover` or `shardway restore` again", path), b.unlock())
	}
	return open(b, wantNode)
}

// open reads and raises what the locked backend holds.
func open(b backend, wantNode string) (*Dir, error) {
	d := &Dir{b: b}
	if err := d.load(wantNode); err != nil {
		return nil, errors.Join(err, b.unlock())
	}
	return d, nil
}

func (d *Dir) load(wantNode string) error {
	var err error
	if d.id, err = identify(d.b, wantNode); err != nil {
		return err
	}
	if _, err = load(d.b, clusterFile, &d.clus); err != nil {
		return err
	}
	kept := d.clus.ID
	d.known.Store(&kept)
	if _, err = load(d.b, levelFile, &d.lvl); err != nil {
		return err
	}
	if b, ok := d.b.(*files); !ok || !b.repair {
		if err = errors.Join(refuseSuperseded(d.b, d.clus.ID), refuseStale(d.b)); err != nil {
			return err
		}
	}
	var last boot
	if _, err = load(d.b, bootFile, &last); err != nil {
		return err
	}
	return d.setBoot(last.Boot + 1)
}

// setBoot makes n the boot, on disk first.
func (d *Dir) setBoot(n uint64) error {
	if err := save(d.b, bootFile, boot{Format: format, Boot: n}); err != nil {
		return err
	}
	d.boot = n
	return nil
}

// Node returns the node's id.
func (d *Dir) Node() string { return d.id.Node }

// Disk returns the random id made with the directory.
func (d *Dir) Disk() string { return d.id.Disk }

// Boot returns the number of this boot, at least 1.
func (d *Dir) Boot() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.boot
}

// Raise is for a node that is told of a boot of itself: if told is above its
// own, it takes the one after told, durably. It returns the boot that holds now.
func (d *Dir) Raise(told uint64) (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done {
		return d.boot, errClosed
	}
	if told <= d.boot {
		return d.boot, nil
	}
	if told == ^uint64(0) {
		return d.boot, errors.New("disk: no boot number above the one told")
	}
	err := d.setBoot(told + 1)
	return d.boot, err
}

// Cluster returns the cluster that the directory belongs to and its number of
// shards; "" and 0 until SetCluster.
func (d *Dir) Cluster() (id string, shards int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clus.ID, d.clus.Shards
}

// SetCluster keeps, durably, that the directory belongs to a cluster. It is set
// once: another value is an error that names both.
func (d *Dir) SetCluster(id string, shards int) error {
	if id == "" || shards <= 0 {
		return fmt.Errorf("disk: cluster %q with %d shards", id, shards)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done {
		return errClosed
	}
	want := cluster{Format: format, ID: id, Shards: shards}
	if d.clus == want {
		return nil
	}
	if d.clus.ID != "" {
		return fmt.Errorf("disk: the data directory belongs to cluster %s with %d shards, not to cluster %s with %d", d.clus.ID, d.clus.Shards, id, shards)
	}
	if err := save(d.b, clusterFile, want); err != nil {
		return err
	}
	d.clus = want
	d.known.Store(&id)
	return nil
}

// KnownCluster is the id that Cluster returns. It waits for nothing.
func (d *Dir) KnownCluster() string {
	if id := d.known.Load(); id != nil {
		return *id
	}
	return ""
}

// Level returns the highest level that was in force when the directory was used last;
// zero: none was kept.
func (d *Dir) Level() uint8 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lvl.Level
}

// KeepLevel keeps, durably, that a level is in force: a program that does not know it
// is to see that before it opens the log. A lower one than is kept changes nothing.
func (d *Dir) KeepLevel(l uint8) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done {
		return errClosed
	}
	if l <= d.lvl.Level {
		return nil
	}
	want := level{Format: format, Level: l}
	if err := save(d.b, levelFile, want); err != nil {
		return err
	}
	d.lvl = want
	return nil
}

// Path returns where the directory lies, for people; "in memory" for a Memory.
func (d *Dir) Path() string { return home(d.b) }

// GossipSnapshot returns the path of gossip's list of members; "" for a Memory.
func (d *Dir) GossipSnapshot() string { return d.b.path(gossipFile) }

// Close closes the stores and gives the lock back. It is idempotent. A write
// that still hangs keeps the log open and is reported.
func (d *Dir) Close() error {
	d.mu.Lock()
	done, s := d.done, d.open
	d.done = true
	d.mu.Unlock()
	if done {
		return nil
	}
	var err error
	if s != nil {
		err = s.Close()
	}
	return errors.Join(err, d.b.unlock())
}
