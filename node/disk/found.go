package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// bootstrapMark is the content of bootstrap.json, which exists while Found has begun and not finished.
type bootstrapMark struct {
	Format int `json:"format"`
	// From is the directory to which the previous files are moved, "" if there were none.
	From string `json:"from"`
}

// superseded is the content of superseded.json: the cluster of this directory continues
// elsewhere as cluster By, without this directory.
type superseded struct {
	Format int    `json:"format"`
	By     string `json:"by"`
}

// Supersede durably records that the cluster of the directory was recovered without it as
// the cluster by. Open refuses the directory from now on. Otherwise its node could serve
// together with other excluded nodes while the recovered ones are unreachable.
func (d *Dir) Supersede(by string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	return save(d.b, supersededFile, superseded{Format: format, By: by})
}

// refuseSuperseded returns an error with a remedy if Supersede was called.
func refuseSuperseded(b backend, former string) error {
	var s superseded
	found, err := load(b, supersededFile, &s)
	if err != nil || !found {
		return err
	}
	return fmt.Errorf("disk: the contents of data directory %q are no longer valid: its cluster %s was recovered without it as %s: start with an empty directory to join", where(b, "."), former, s.By)
}

// Foundation describes the cluster that Found creates.
type Foundation struct {
	// Cluster and Shards are the id and the number of shards of the new cluster.
	Cluster string
	Shards  int
	// Write fills the new stores for the server with the given disk id.
	Write func(disk string, s *Stores) error
	// Stores are the options of the new stores.
	Stores StoreOptions
}

// OpenRepair is Open for commands that change a directory while no node runs. It also opens
// a directory in which Found was interrupted; OpenStores then opens the previous log.
func OpenRepair(path, wantNode string) (*Dir, error) {
	b, err := openFiles(path)
	if err != nil {
		return nil, err
	}
	var mark bootstrapMark
	begun, err := load(b, bootstrapFile, &mark)
	if err != nil {
		return nil, errors.Join(err, b.unlock())
	}
	if begun && mark.From != "" && exists(b.previousRaftDir(mark)) {
		b.raft = filepath.Join(mark.From, raftDir)
	}
	b.repair, b.restoring = true, begun && mark.From == ""
	return open(b, wantNode)
}

// Used reports whether the directory belongs to a cluster or contains a Raft log. A
// directory with an interrupted restore does not count as used.
func (d *Dir) Used() (bool, error) {
	if b, ok := d.b.(*files); ok && b.restoring {
		return false, nil
	}
	if id, _ := d.Cluster(); id != "" {
		return true, nil
	}
	var made raftMade
	return load(d.b, raftFile, &made)
}

// Found makes the directory the first one of a cluster. It closes the stores. The Raft log
// of a previous cluster and the node's identity in it are kept in a subdirectory, whose
// name is returned, so that an operator can go back. The disk id changes with the log,
// because the votes of the old one are forgotten. Afterwards only Close may be called.
//
// A crash leaves a mark. Open then refuses the directory until Found has finished, called
// again on the result of OpenRepair.
func (d *Dir) Found(f Foundation) (kept string, err error) {
	b, ok := d.b.(*files)
	if !ok || !b.repair || f.Cluster == "" || f.Shards <= 0 {
		return "", fmt.Errorf("disk: cannot create cluster %q with %d shards here", f.Cluster, f.Shards)
	}
	if err = d.closeStores(); err != nil {
		return "", err
	}
	if kept, err = b.clear(d.Boot()); err != nil {
		return "", fmt.Errorf("disk: move the raft log aside: %w", err)
	}
	d.id.Disk = random(10)
	if err := save(b, identityFile, d.id); err != nil {
		return "", err
	}
	if err := d.writeFoundation(f); err != nil {
		return "", err
	}
	if err := save(b, clusterFile, cluster{Format: format, ID: f.Cluster, Shards: f.Shards}); err != nil {
		return "", err
	}
	for _, name := range []string{supersededFile, staleFile, bootstrapFile} {
		if err := os.Remove(b.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("disk: %w", err)
		}
	}
	if err := syncDir(b.dir); err != nil {
		return "", fmt.Errorf("disk: %w", err)
	}
	return kept, nil
}

// clear marks the directory and makes room for new stores. It removes the files of an
// earlier, interrupted attempt.
func (b *files) clear(boot uint64) (kept string, err error) {
	var mark bootstrapMark
	begun, err := load(b, bootstrapFile, &mark)
	if err != nil {
		return "", err
	}
	if !begun {
		mark = bootstrapMark{Format: format}
		if exists(b.path(raftDir)) {
			mark.From = fmt.Sprintf(asidePrefix+"%d", boot)
			if err := b.copyIdentity(mark.From); err != nil {
				return "", err
			}
		}
		if err := save(b, bootstrapFile, mark); err != nil {
			return "", err
		}
	}
	b.raft = raftDir
	if err := os.Remove(b.path(raftFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if mark.From == "" || exists(b.previousRaftDir(mark)) {
		return mark.From, os.RemoveAll(b.path(raftDir))
	}
	return mark.From, errors.Join(os.Rename(b.path(raftDir), b.previousRaftDir(mark)), syncDir(b.path(mark.From)), syncDir(b.dir))
}

// previousRaftDir returns the directory to which the previous Raft log is moved.
func (b *files) previousRaftDir(m bootstrapMark) string {
	return filepath.Join(b.path(m.From), raftDir)
}

// copyIdentity copies the identity of the node to a new subdirectory.
func (b *files) copyIdentity(dir string) error {
	if err := os.MkdirAll(b.path(dir), dirMode); err != nil {
		return err
	}
	for _, name := range []string{identityFile, clusterFile, raftFile} {
		data, err := b.read(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = b.write(filepath.Join(dir, name), data)
		}
		if err != nil {
			return err
		}
	}
	return syncDir(b.path(dir))
}

// writeFoundation creates new stores and calls f.Write to fill them.
func (d *Dir) writeFoundation(f Foundation) error {
	s, err := d.OpenStores(f.Stores)
	if err != nil {
		return err
	}
	return errors.Join(f.Write(d.id.Disk, s), d.closeStores())
}

// closeStores closes the open stores, so that others can be opened.
func (d *Dir) closeStores() error {
	d.mu.Lock()
	s := d.open
	d.open = nil
	d.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.Close()
}

// exists reports whether a file exists and is accessible.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
