package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// interruptedBootstrap is the content of bootstrap.json, which exists from the start of
// BootstrapCluster until it finishes.
type interruptedBootstrap struct {
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

// MarkSuperseded durably records that the cluster of the directory was recovered without it, with
// the ID cluster. Open refuses the directory from now on. Otherwise its node could serve together
// with other excluded nodes while the recovered ones are unreachable.
func (d *Dir) MarkSuperseded(cluster string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	return saveFile(d.backend, supersededFile, superseded{Format: format, By: cluster})
}

// checkSuperseded returns an error with a remedy if MarkSuperseded was called.
func checkSuperseded(b backend, previousCluster string) error {
	var content superseded
	found, err := loadFile(b, supersededFile, &content)
	if err != nil || !found {
		return err
	}
	return fmt.Errorf("disk: the contents of data directory %q are no longer valid: its cluster %s was recovered without it as %s: start with an empty directory to join", displayPath(b, "."), previousCluster, content.By)
}

// NewCluster describes the cluster that BootstrapCluster creates.
type NewCluster struct {
	// Cluster and Shards are the id and the number of shards of the new cluster.
	Cluster string
	Shards  int
	// Write fills the new stores for the server with the given disk id.
	Write func(disk string, s *Stores) error
	// Stores are the options of the new stores.
	Stores StoreOptions
}

// OpenRepair is Open for commands that change a directory while no node runs. It also opens a
// directory in which BootstrapCluster was interrupted; OpenStores then opens the previous log.
func OpenRepair(path, wantNode string) (*Dir, error) {
	files, err := openFiles(path)
	if err != nil {
		return nil, err
	}
	var mark interruptedBootstrap
	interrupted, err := loadFile(files, bootstrapFile, &mark)
	if err != nil {
		return nil, errors.Join(err, files.unlock())
	}
	if interrupted && mark.From != "" && exists(files.previousRaftDir(mark)) {
		files.raftPath = filepath.Join(mark.From, raftDir)
	}
	files.repair, files.restoring = true, interrupted && mark.From == ""
	return loadDir(files, wantNode)
}

// IsUsed reports whether the directory belongs to a cluster or contains a Raft log. A
// directory with an interrupted restore does not count as used.
func (d *Dir) IsUsed() (bool, error) {
	if files, ok := d.backend.(*files); ok && files.restoring {
		return false, nil
	}
	if id, _ := d.Cluster(); id != "" {
		return true, nil
	}
	var marker raftMarker
	return loadFile(d.backend, raftFile, &marker)
}

// BootstrapCluster makes the directory the first member of a new cluster. It closes the stores. The
// Raft log of a previous cluster and the node's identity in it are moved to a subdirectory, whose
// name is returned, so that an operator can restore them. The disk id changes with the log, because
// the votes of the old one are forgotten. Afterwards only Close may be called.
//
// A crash leaves a mark. Open then refuses the directory until BootstrapCluster has finished in a
// later call, on the result of OpenRepair.
func (d *Dir) BootstrapCluster(newCluster NewCluster) (previousDir string, err error) {
	files, ok := d.backend.(*files)
	if !ok || !files.repair || newCluster.Cluster == "" || newCluster.Shards <= 0 {
		return "", fmt.Errorf("disk: cannot create cluster %q with %d shards here", newCluster.Cluster, newCluster.Shards)
	}
	if err = d.closeStores(); err != nil {
		return "", err
	}
	if previousDir, err = files.moveStoresAside(d.Boot()); err != nil {
		return "", fmt.Errorf("disk: move the raft log aside: %w", err)
	}
	d.identity.Disk = randomID(10)
	if err := saveFile(files, identityFile, d.identity); err != nil {
		return "", err
	}
	if err := d.writeNewCluster(newCluster); err != nil {
		return "", err
	}
	if err := saveFile(files, clusterFile, cluster{Format: format, ID: newCluster.Cluster, Shards: newCluster.Shards}); err != nil {
		return "", err
	}
	for _, name := range []string{supersededFile, staleFile, bootstrapFile} {
		if err := os.Remove(files.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("disk: %w", err)
		}
	}
	if err := syncDir(files.root); err != nil {
		return "", fmt.Errorf("disk: %w", err)
	}
	return previousDir, nil
}

// moveStoresAside marks the directory as interrupted and moves the Raft stores to a subdirectory.
// It removes the files of an earlier, interrupted attempt. It returns the name of the subdirectory,
// or "" if there were no stores.
func (f *files) moveStoresAside(boot uint64) (previousDir string, err error) {
	var mark interruptedBootstrap
	interrupted, err := loadFile(f, bootstrapFile, &mark)
	if err != nil {
		return "", err
	}
	if !interrupted {
		mark = interruptedBootstrap{Format: format}
		if exists(f.path(raftDir)) {
			mark.From = fmt.Sprintf(previousDirPrefix+"%d", boot)
			if err := f.copyIdentity(mark.From); err != nil {
				return "", err
			}
		}
		if err := saveFile(f, bootstrapFile, mark); err != nil {
			return "", err
		}
	}
	f.raftPath = raftDir
	if err := os.Remove(f.path(raftFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if mark.From == "" || exists(f.previousRaftDir(mark)) {
		return mark.From, os.RemoveAll(f.path(raftDir))
	}
	return mark.From, errors.Join(os.Rename(f.path(raftDir), f.previousRaftDir(mark)), syncDir(f.path(mark.From)), syncDir(f.root))
}

// previousRaftDir returns the directory to which the previous Raft log is moved.
func (f *files) previousRaftDir(mark interruptedBootstrap) string {
	return filepath.Join(f.path(mark.From), raftDir)
}

// copyIdentity copies the identity of the node to a new subdirectory.
func (f *files) copyIdentity(dir string) error {
	if err := os.MkdirAll(f.path(dir), dirMode); err != nil {
		return err
	}
	for _, name := range []string{identityFile, clusterFile, raftFile} {
		data, err := f.read(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = f.write(filepath.Join(dir, name), data)
		}
		if err != nil {
			return err
		}
	}
	return syncDir(f.path(dir))
}

// writeNewCluster creates new stores and calls newCluster.Write to fill them.
func (d *Dir) writeNewCluster(newCluster NewCluster) error {
	stores, err := d.OpenStores(newCluster.Stores)
	if err != nil {
		return err
	}
	return errors.Join(newCluster.Write(d.identity.Disk, stores), d.closeStores())
}

// closeStores closes the open stores, so that others can be opened.
func (d *Dir) closeStores() error {
	d.mu.Lock()
	stores := d.openStores
	d.openStores = nil
	d.mu.Unlock()
	if stores == nil {
		return nil
	}
	return stores.Close()
}

// exists reports whether a file exists and is accessible.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
