package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// founding is the content of founding.json: Found was begun and not finished.
type founding struct {
	Format int `json:"format"`
	// From is the directory to which what was there before is moved, "" if there
	// was nothing.
	From string `json:"from"`
}

// superseded is the content of superseded.json: the cluster of this directory
// goes on elsewhere, as By, and without it.
type superseded struct {
	Format int    `json:"format"`
	By     string `json:"by"`
}

// Supersede notes, durably, that the directory's cluster was recovered without it
// as the cluster by. Open refuses it from now on: its node must not serve with
// others that were left the next time that the recovered ones are out of sight.
func (d *Dir) Supersede(by string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done {
		return errClosed
	}
	return save(d.b, supersededFile, superseded{Format: format, By: by})
}

// refuseSuperseded returns an error that says what to do, if Supersede was called.
func refuseSuperseded(b backend, former string) error {
	var s superseded
	found, err := load(b, supersededFile, &s)
	if err != nil || !found {
		return err
	}
	return fmt.Errorf("disk: the contents of data directory %q are no longer valid: its cluster %s was recovered without it as %s: start with an empty directory to join", where(b, "."), former, s.By)
}

// Foundation is what Found makes.
type Foundation struct {
	// Cluster and Shards are those of the cluster that goes on here.
	Cluster string
	Shards  int
	// Write fills the new stores, for the server that has the given disk id.
	Write func(disk string, s *Stores) error
	// Stores are the settings of the new stores.
	Stores StoreOptions
}

// OpenRepair is Open for the commands that work on a directory while no node
// does. It opens a directory of which Found was interrupted, too; OpenStores then
// opens the log from before.
func OpenRepair(path, wantNode string) (*Dir, error) {
	b, err := openFiles(path)
	if err != nil {
		return nil, err
	}
	var mark founding
	begun, err := load(b, foundingFile, &mark)
	if err != nil {
		return nil, errors.Join(err, b.unlock())
	}
	if begun && mark.From != "" && exists(b.former(mark)) {
		b.raft = filepath.Join(mark.From, raftDir)
	}
	b.repair, b.restoring = true, begun && mark.From == ""
	return open(b, wantNode)
}

// Used reports whether the directory belongs to a cluster, or has a Raft log; one
// in which a restore was interrupted is not used yet.
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

// Found makes the directory the beginning of a cluster. It closes the stores.
// Another cluster's Raft log, and who the node was in it, are kept in a directory
// below, whose name is returned, for who thinks better of it. The disk id changes with the log: what the old one has
// voted is forgotten. Afterwards the Dir is good for Close only.
//
// A crash leaves a mark by which Open refuses the directory until Found, called
// again on what OpenRepair opens, has finished.
func (d *Dir) Found(f Foundation) (kept string, err error) {
	b, ok := d.b.(*files)
	if !ok || !b.repair || f.Cluster == "" || f.Shards <= 0 {
		return "", fmt.Errorf("disk: cannot found cluster %q with %d shards here", f.Cluster, f.Shards)
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
	if err := d.fill(f); err != nil {
		return "", err
	}
	if err := save(b, clusterFile, cluster{Format: format, ID: f.Cluster, Shards: f.Shards}); err != nil {
		return "", err
	}
	for _, name := range []string{supersededFile, staleFile, foundingFile} {
		if err := os.Remove(b.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("disk: %w", err)
		}
	}
	if err := syncDir(b.dir); err != nil {
		return "", fmt.Errorf("disk: %w", err)
	}
	return kept, nil
}

// clear marks the directory and makes room for new stores. What the last try has
// made, if it was interrupted, is removed.
func (b *files) clear(boot uint64) (kept string, err error) {
	var mark founding
	begun, err := load(b, foundingFile, &mark)
	if err != nil {
		return "", err
	}
	if !begun {
		mark = founding{Format: format}
		if exists(b.path(raftDir)) {
			mark.From = fmt.Sprintf(asidePrefix+"%d", boot)
			if err := b.keep(mark.From); err != nil {
				return "", err
			}
		}
		if err := save(b, foundingFile, mark); err != nil {
			return "", err
		}
	}
	b.raft = raftDir
	if err := os.Remove(b.path(raftFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if mark.From == "" || exists(b.former(mark)) {
		return mark.From, os.RemoveAll(b.path(raftDir))
	}
	return mark.From, errors.Join(os.Rename(b.path(raftDir), b.former(mark)), syncDir(b.path(mark.From)), syncDir(b.dir))
}

// former is where the Raft log from before is moved to.
func (b *files) former(m founding) string { return filepath.Join(b.path(m.From), raftDir) }

// keep copies who the node was into a new directory.
func (b *files) keep(dir string) error {
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

// fill makes new stores and lets them be written.
func (d *Dir) fill(f Foundation) error {
	s, err := d.OpenStores(f.Stores)
	if err != nil {
		return err
	}
	return errors.Join(f.Write(d.id.Disk, s), d.closeStores())
}

// closeStores closes the stores that are open, so that others can be opened.
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

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
