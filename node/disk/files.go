package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bberrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

const (
	lockFile   = "lock"
	gossipFile = "gossip"
	socketFile = "self.sock" // created by package admin
	raftDir    = "raft"
	logFile    = "log.db"

	dirMode  = 0o700
	fileMode = 0o600
)

// files is the backend in a directory of the file system.
type files struct {
	dir  string
	lock *os.File
	// raft is the directory of the Raft stores. It differs from raftDir only for
	// OpenRepair.
	raft string
	// access is the access that other users had when the directory was opened.
	access DirAccess
	// repair is true for OpenRepair. restoring is true if the directory was empty before an
	// interrupted Found.
	repair, restoring bool
}

// openFiles creates the directory if necessary and takes its lock.
func openFiles(dir string) (*files, error) {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, unusable(dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, fileMode) //nolint:gosec // the operator names the directory
	if errors.Is(err, unix.ELOOP) {
		return nil, linked(filepath.Join(dir, lockFile))
	}
	if err != nil {
		return nil, unusable(dir, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer func() { _ = f.Close() }()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("disk: data directory %q is in use by another process%s: stop it, or name another directory with --data", dir, holder(f))
		}
		return nil, unusable(dir, fmt.Errorf("lock: %w", err))
	}
	b := &files{dir: dir, lock: f, raft: raftDir}
	if err := b.writePID(); err != nil {
		return nil, errors.Join(unusable(dir, err), b.unlock())
	}
	b.access = b.restrictAccess()
	if err := b.rejectLinks(); err != nil {
		return nil, errors.Join(err, b.unlock())
	}
	return b, nil
}

// holder returns " (pid 7)" from the lock file of another process, "" if it contains no
// pid.
func holder(f *os.File) string {
	b, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return ""
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (pid %d)", pid)
}

// writePID writes the pid of this process to the lock file. Syncing it also proves that the
// directory is writable.
func (b *files) writePID() error {
	if err := b.lock.Truncate(0); err != nil {
		return err
	}
	if _, err := b.lock.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0); err != nil {
		return err
	}
	return b.lock.Sync()
}

// unlock removes the pid from the lock file and releases the lock.
func (b *files) unlock() error {
	if err := b.lock.Truncate(0); err != nil {
		return errors.Join(err, b.lock.Close())
	}
	return b.lock.Close()
}

// read returns the content of a file, or errTooLong.
func (b *files) read(name string) ([]byte, error) {
	f, err := os.Open(b.path(name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err == nil && len(data) > maxFileSize {
		err = errTooLong
	}
	return data, err
}

// write writes a temporary file and renames it, so that a crash leaves either the old or
// the new content. It also syncs the directory, so that the rename is durable.
func (b *files) write(name string, data []byte) error {
	tmp := b.path(name + ".tmp")
	if err := writeSynced(tmp, data); err != nil {
		return err
	}
	if err := os.Rename(tmp, b.path(name)); err != nil {
		return err
	}
	return syncDir(b.dir)
}

// writeSynced writes a file and syncs it. It does not follow a symbolic link.
func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, fileMode) //nolint:gosec // the operator names the directory
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// rename renames a file and syncs the directory.
func (b *files) rename(from, to string) error {
	if err := os.Rename(b.path(from), b.path(to)); err != nil {
		return err
	}
	return syncDir(b.dir)
}

// syncDir syncs the entries of a directory, which makes new and renamed files durable.
func syncDir(path string) error {
	d, err := os.Open(path) //nolint:gosec // the operator names the directory
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// path returns the path of a file in the directory.
func (b *files) path(name string) string { return filepath.Join(b.dir, name) }

// foreign returns the name of a file that only a used directory contains, or "".
func (b *files) foreign() string {
	for _, name := range []string{bootFile, clusterFile, raftFile, raftDir} {
		if _, err := os.Stat(b.path(name)); !errors.Is(err, fs.ErrNotExist) {
			return name
		}
	}
	return ""
}

// stores opens the Raft stores. raft.json records separately that they were created: if the
// log is lost but the disk id is not, the server would vote as if it had never voted. For
// the same reason the directory entries of new files are synced before anything is written
// to the files.
func (b *files) stores(o StoreOptions) (rawStores, error) {
	var made raftMade
	had, err := load(b, raftFile, &made)
	if err != nil {
		return rawStores{}, err
	}
	log := filepath.Join(b.path(b.raft), logFile)
	if _, err = os.Stat(log); had && errors.Is(err, fs.ErrNotExist) {
		return rawStores{}, fmt.Errorf("disk: the raft log %q is gone: restore it, or start with an empty data directory", log)
	}
	raw, err := b.open(o)
	if err != nil || had {
		return raw, err
	}
	if err = errors.Join(syncDir(b.path(b.raft)), syncDir(b.dir)); err != nil {
		err = unusable(b.dir, err)
	} else {
		err = save(b, raftFile, raftMade{Format: format})
	}
	if err != nil {
		return rawStores{}, errors.Join(err, raw.close())
	}
	return raw, nil
}

// open opens the files of the libraries in raft/.
func (b *files) open(o StoreOptions) (rawStores, error) {
	dir := b.path(b.raft)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return rawStores{}, unusable(b.dir, err)
	}
	snaps, err := raft.NewFileSnapshotStoreWithLogger(dir, snapshotsKept, o.hclog())
	if err != nil {
		return rawStores{}, unusable(b.dir, fmt.Errorf("snapshots in %q: %w", dir, err))
	}
	log := filepath.Join(dir, logFile)
	if !exists(log) {
		if err = makeLog(log); err != nil {
			return rawStores{}, unusable(b.dir, fmt.Errorf("make raft log %q: %w", log, err))
		}
	}
	db, err := openLog(log)
	if errors.Is(err, bberrors.ErrTimeout) {
		return rawStores{}, fmt.Errorf("disk: raft log %q is in use by another process", log)
	}
	if err != nil {
		return rawStores{}, unusable(b.dir, fmt.Errorf("raft log %q: %w", log, err))
	}
	return rawStores{logs: db, stable: db, snaps: snaps, close: db.Close}, nil
}

// makeLog creates the log file completely or not at all. bbolt crashes with a signal on a
// truncated file, as a full disk would leave it.
func makeLog(path string) error {
	tmp := path + ".tmp"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := openLog(tmp)
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// openLog opens the log file. It waits up to lockTimeout for the lock of another process.
func openLog(path string) (*raftboltdb.BoltStore, error) {
	return raftboltdb.New(raftboltdb.Options{
		Path: path,
		BoltOptions: &bbolt.Options{
			Timeout:        lockTimeout,
			NoFreelistSync: true,
			FreelistType:   bbolt.FreelistMapType,
		},
	})
}
