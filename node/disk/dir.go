package disk

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// errClosed is the error of a write after Close, when another process may have opened the
// directory.
var errClosed = errors.New("disk: data directory is closed")

// Dir is an open data directory.
type Dir struct {
	backend    backend
	identity   identity
	mu         sync.Mutex
	boot       uint64
	cluster    cluster
	level      level
	openStores *Stores
	closed     bool

	clusterID atomic.Pointer[string] // cluster.ID, readable without waiting for the disk

	knownMu         sync.Mutex // serializes StoreDiskRecords and DiskRecords; locked before mu
	knownUnreadable bool       // known.json exists but could not be read; protected by knownMu
}

// Open opens the data directory at path, creates it if necessary, and counts a boot.
// wantNode is the node id from the configuration. If it is empty, Open uses the stored id,
// or a random one for a new directory. The directory is locked until Close.
func Open(path, wantNode string) (*Dir, error) {
	opened, err := openFiles(path)
	if err != nil {
		return nil, err
	}
	if exists(opened.path(bootstrapFile)) {
		return nil, errors.Join(fmt.Errorf("disk: data directory %q contains an interrupted recovery or restore: run the same `shardway recover` or `shardway restore` again", path), opened.unlock())
	}
	return loadDir(opened, wantNode)
}

// loadDir loads the files of a locked backend and counts a boot.
func loadDir(locked backend, wantNode string) (*Dir, error) {
	d := &Dir{backend: locked}
	if err := d.load(wantNode); err != nil {
		return nil, errors.Join(err, locked.unlock())
	}
	return d, nil
}

// load reads all files of the directory, checks whether the directory may be used, and counts a boot.
func (d *Dir) load(wantNode string) error {
	var err error
	if d.identity, err = loadIdentity(d.backend, wantNode); err != nil {
		return err
	}
	if _, err = loadFile(d.backend, clusterFile, &d.cluster); err != nil {
		return err
	}
	clusterID := d.cluster.ID
	d.clusterID.Store(&clusterID)
	if _, err = loadFile(d.backend, levelFile, &d.level); err != nil {
		return err
	}
	if files, ok := d.backend.(*files); !ok || !files.repair {
		if err = errors.Join(checkSuperseded(d.backend, d.cluster.ID), checkStale(d.backend)); err != nil {
			return err
		}
	}
	var last boot
	if _, err = loadFile(d.backend, bootFile, &last); err != nil {
		return err
	}
	return d.setBoot(last.Boot + 1)
}

// setBoot writes the boot number to disk, and then sets it in memory.
func (d *Dir) setBoot(number uint64) error {
	if err := saveFile(d.backend, bootFile, boot{Format: format, Boot: number}); err != nil {
		return err
	}
	d.boot = number
	return nil
}

// Node returns the id of the node.
func (d *Dir) Node() string { return d.identity.Node }

// Disk returns the random id that was created with the directory.
func (d *Dir) Disk() string { return d.identity.Disk }

// Boot returns the current boot number, at least 1.
func (d *Dir) Boot() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.boot
}

// RaiseBoot durably sets the boot number to reported + 1 if reported, the boot number of another
// process that has used this node's disk, is greater than the current one. It returns the resulting
// boot number.
func (d *Dir) RaiseBoot(reported uint64) (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return d.boot, errClosed
	}
	if reported <= d.boot {
		return d.boot, nil
	}
	if reported == ^uint64(0) {
		return d.boot, errors.New("disk: no boot number is greater than the reported one")
	}
	err := d.setBoot(reported + 1)
	return d.boot, err
}

// Cluster returns the id of the cluster to which the directory belongs, and the number of shards of
// this cluster. Before SetCluster, it returns "" and zero.
func (d *Dir) Cluster() (id string, shards int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cluster.ID, d.cluster.Shards
}

// SetCluster durably records the cluster to which the directory belongs. A later call with other
// values returns an error.
func (d *Dir) SetCluster(id string, shards int) error {
	if id == "" || shards <= 0 {
		return fmt.Errorf("disk: cluster %q with %d shards", id, shards)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	wanted := cluster{Format: format, ID: id, Shards: shards}
	if d.cluster == wanted {
		return nil
	}
	if d.cluster.ID != "" {
		return fmt.Errorf("disk: the data directory belongs to cluster %s with %d shards, not to cluster %s with %d", d.cluster.ID, d.cluster.Shards, id, shards)
	}
	if err := saveFile(d.backend, clusterFile, wanted); err != nil {
		return err
	}
	d.cluster = wanted
	d.clusterID.Store(&id)
	return nil
}

// CachedClusterID returns the cluster id like Cluster, but never blocks.
func (d *Dir) CachedClusterID() string {
	if id := d.clusterID.Load(); id != nil {
		return *id
	}
	return ""
}

// Level returns the highest recorded format version that was in force in the cluster. Zero means
// that none was recorded.
func (d *Dir) Level() uint8 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.level.Level
}

// StoreLevel durably records the format version that is in force in the cluster. A program that does
// not support this version then stops before it opens the log. StoreLevel ignores a version that is
// lower than the recorded one.
func (d *Dir) StoreLevel(newLevel uint8) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	if newLevel <= d.level.Level {
		return nil
	}
	wanted := level{Format: format, Level: newLevel}
	if err := saveFile(d.backend, levelFile, wanted); err != nil {
		return err
	}
	d.level = wanted
	return nil
}

// Path returns the path of the directory for display, "in memory" for a Memory.
func (d *Dir) Path() string { return displayDir(d.backend) }

// GossipSnapshot returns the path of the gossip member list, "" for a Memory.
func (d *Dir) GossipSnapshot() string { return d.backend.path(gossipFile) }

// Close closes the stores and releases the lock. It is idempotent. If a write still hangs,
// it leaves the log open and returns an error.
func (d *Dir) Close() error {
	d.mu.Lock()
	wasClosed, stores := d.closed, d.openStores
	d.closed = true
	d.mu.Unlock()
	if wasClosed {
		return nil
	}
	var err error
	if stores != nil {
		err = stores.Close()
	}
	return errors.Join(err, d.backend.unlock())
}
