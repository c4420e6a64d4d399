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
	b       backend
	id      identity
	mu      sync.Mutex
	boot    uint64
	cluster cluster
	level   level
	open    *Stores
	closed  bool

	clusterID atomic.Pointer[string] // cluster.ID, readable without waiting for the disk

	knownMu         sync.Mutex // serializes KeepKnown and Known; locked before mu
	knownUnreadable bool       // known.json exists but could not be read; protected by knownMu
}

// Open opens the data directory at path, creates it if necessary, and counts a boot.
// wantNode is the node id from the configuration. If it is empty, Open uses the stored id,
// or a random one for a new directory. The directory is locked until Close.
func Open(path, wantNode string) (*Dir, error) {
	b, err := openFiles(path)
	if err != nil {
		return nil, err
	}
	if exists(b.path(bootstrapFile)) {
		return nil, errors.Join(fmt.Errorf("disk: data directory %q contains an interrupted recovery or restore: run the same `shardway recover` or `shardway restore` again", path), b.unlock())
	}
	return open(b, wantNode)
}

// open loads the files of a locked backend and counts a boot.
func open(b backend, wantNode string) (*Dir, error) {
	d := &Dir{b: b}
	if err := d.load(wantNode); err != nil {
		return nil, errors.Join(err, b.unlock())
	}
	return d, nil
}

// load reads all files of the directory, checks whether the directory may be used, and counts a boot.
func (d *Dir) load(wantNode string) error {
	var err error
	if d.id, err = identify(d.b, wantNode); err != nil {
		return err
	}
	if _, err = load(d.b, clusterFile, &d.cluster); err != nil {
		return err
	}
	kept := d.cluster.ID
	d.clusterID.Store(&kept)
	if _, err = load(d.b, levelFile, &d.level); err != nil {
		return err
	}
	if b, ok := d.b.(*files); !ok || !b.repair {
		if err = errors.Join(refuseSuperseded(d.b, d.cluster.ID), refuseStale(d.b)); err != nil {
			return err
		}
	}
	var last boot
	if _, err = load(d.b, bootFile, &last); err != nil {
		return err
	}
	return d.setBoot(last.Boot + 1)
}

// setBoot sets the boot number. It writes it to disk first.
func (d *Dir) setBoot(n uint64) error {
	if err := save(d.b, bootFile, boot{Format: format, Boot: n}); err != nil {
		return err
	}
	d.boot = n
	return nil
}

// Node returns the id of the node.
func (d *Dir) Node() string { return d.id.Node }

// Disk returns the random id that was created with the directory.
func (d *Dir) Disk() string { return d.id.Disk }

// Boot returns the current boot number, at least 1.
func (d *Dir) Boot() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.boot
}

// Raise is for a node that learns of another boot of itself. If told is not below the boot
// number of this node, it durably sets the number to told + 1. It returns the current boot
// number.
func (d *Dir) Raise(told uint64) (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return d.boot, errClosed
	}
	if told <= d.boot {
		return d.boot, nil
	}
	if told == ^uint64(0) {
		return d.boot, errors.New("disk: no boot number is greater than the reported one")
	}
	err := d.setBoot(told + 1)
	return d.boot, err
}

// Cluster returns the cluster to which the directory belongs and its number of shards, ""
// and 0 before SetCluster.
func (d *Dir) Cluster() (id string, shards int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cluster.ID, d.cluster.Shards
}

// SetCluster durably records that the directory belongs to a cluster. A later call with
// other values returns an error.
func (d *Dir) SetCluster(id string, shards int) error {
	if id == "" || shards <= 0 {
		return fmt.Errorf("disk: cluster %q with %d shards", id, shards)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	want := cluster{Format: format, ID: id, Shards: shards}
	if d.cluster == want {
		return nil
	}
	if d.cluster.ID != "" {
		return fmt.Errorf("disk: the data directory belongs to cluster %s with %d shards, not to cluster %s with %d", d.cluster.ID, d.cluster.Shards, id, shards)
	}
	if err := save(d.b, clusterFile, want); err != nil {
		return err
	}
	d.cluster = want
	d.clusterID.Store(&id)
	return nil
}

// KnownCluster returns the cluster id like Cluster, but never blocks.
func (d *Dir) KnownCluster() string {
	if id := d.clusterID.Load(); id != nil {
		return *id
	}
	return ""
}

// Level returns the highest level that was in force when the directory was last used. Zero
// means none was recorded.
func (d *Dir) Level() uint8 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.level.Level
}

// KeepLevel durably records that a level is in force, so that a program that does not
// support the level notices before it opens the log. A level lower than the recorded one
// changes nothing.
func (d *Dir) KeepLevel(l uint8) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	if l <= d.level.Level {
		return nil
	}
	want := level{Format: format, Level: l}
	if err := save(d.b, levelFile, want); err != nil {
		return err
	}
	d.level = want
	return nil
}

// Path returns the path of the directory for display, "in memory" for a Memory.
func (d *Dir) Path() string { return home(d.b) }

// GossipSnapshot returns the path of the gossip member list, "" for a Memory.
func (d *Dir) GossipSnapshot() string { return d.b.path(gossipFile) }

// Close closes the stores and releases the lock. It is idempotent. If a write still hangs,
// it leaves the log open and returns an error.
func (d *Dir) Close() error {
	d.mu.Lock()
	done, s := d.closed, d.open
	d.closed = true
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
