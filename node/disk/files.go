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
	root string
	lock *os.File
	// raftPath is the directory of the Raft stores. It differs from raftDir only for
	// OpenRepair.
	raftPath string
	// access is the access that other users had when the directory was opened.
	access DirAccess
	// repair is true for OpenRepair. restoring is true if the directory was empty before an
	// interrupted BootstrapCluster.
	repair, restoring bool
}

// openFiles creates the directory if necessary and takes its lock.
func openFiles(dir string) (*files, error) {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, unusableError(dir, err)
	}
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, fileMode) //nolint:gosec // the operator names the directory
	if errors.Is(err, unix.ELOOP) {
		return nil, symlinkError(filepath.Join(dir, lockFile))
	}
	if err != nil {
		return nil, unusableError(dir, err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer func() { _ = file.Close() }()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("disk: data directory %q is in use by another process%s: stop it, or name another directory with --data", dir, lockHolder(file))
		}
		return nil, unusableError(dir, fmt.Errorf("lock: %w", err))
	}
	opened := &files{root: dir, lock: file, raftPath: raftDir}
	if err := opened.writePID(); err != nil {
		return nil, errors.Join(unusableError(dir, err), opened.unlock())
	}
	opened.access = opened.restrictAccess()
	if err := opened.rejectLinks(); err != nil {
		return nil, errors.Join(err, opened.unlock())
	}
	return opened, nil
}

// lockHolder returns " (pid 7)" from the lock file of another process, "" if it contains no
// pid.
func lockHolder(file *os.File) string {
	content, err := io.ReadAll(io.LimitReader(file, 32))
	if err != nil {
		return ""
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (pid %d)", pid)
}

// writePID writes the pid of this process to the lock file. Syncing it also proves that the
// directory is writable.
func (f *files) writePID() error {
	if err := f.lock.Truncate(0); err != nil {
		return err
	}
	if _, err := f.lock.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0); err != nil {
		return err
	}
	return f.lock.Sync()
}

// unlock removes the pid from the lock file and releases the lock.
func (f *files) unlock() error {
	if err := f.lock.Truncate(0); err != nil {
		return errors.Join(err, f.lock.Close())
	}
	return f.lock.Close()
}

// read returns the content of a file, or errTooLong.
func (f *files) read(name string) ([]byte, error) {
	file, err := os.Open(f.path(name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxFileSize+1))
	if err == nil && len(data) > maxFileSize {
		err = errTooLong
	}
	return data, err
}

// write writes a temporary file and renames it, so that a crash leaves either the old or
// the new content. It also syncs the directory, so that the rename is durable.
func (f *files) write(name string, data []byte) error {
	temporary := f.path(name + ".tmp")
	if err := writeSynced(temporary, data); err != nil {
		return err
	}
	if err := os.Rename(temporary, f.path(name)); err != nil {
		return err
	}
	return syncDir(f.root)
}

// writeSynced writes a file and syncs it. It does not follow a symbolic link.
func writeSynced(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, fileMode) //nolint:gosec // the operator names the directory
	if err != nil {
		return err
	}
	if _, err := file.Write(data); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := file.Sync(); err != nil {
		return errors.Join(err, file.Close())
	}
	return file.Close()
}

// rename renames a file and syncs the directory.
func (f *files) rename(from, to string) error {
	if err := os.Rename(f.path(from), f.path(to)); err != nil {
		return err
	}
	return syncDir(f.root)
}

// syncDir syncs the entries of a directory, which makes new and renamed files durable.
func syncDir(path string) error {
	dir, err := os.Open(path) //nolint:gosec // the operator names the directory
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// path returns the path of a file in the directory.
func (f *files) path(name string) string { return filepath.Join(f.root, name) }

// usedFile returns the name of a file that only a used directory contains, or "".
func (f *files) usedFile() string {
	for _, name := range []string{bootFile, clusterFile, raftFile, raftDir} {
		if _, err := os.Stat(f.path(name)); !errors.Is(err, fs.ErrNotExist) {
			return name
		}
	}
	return ""
}

// openStores opens the Raft stores. raft.json records separately that they were created: if the
// log is lost but the disk id is not, the server would vote as if it had never voted. For
// the same reason the directory entries of new files are synced before anything is written
// to the files.
func (f *files) openStores(options StoreOptions) (rawStores, error) {
	var marker raftMarker
	created, err := loadFile(f, raftFile, &marker)
	if err != nil {
		return rawStores{}, err
	}
	logPath := filepath.Join(f.path(f.raftPath), logFile)
	if _, err = os.Stat(logPath); created && errors.Is(err, fs.ErrNotExist) {
		return rawStores{}, fmt.Errorf("disk: the raft log %q is gone: restore it, or start with an empty data directory", logPath)
	}
	opened, err := f.openLibraryStores(options)
	if err != nil || created {
		return opened, err
	}
	if err = errors.Join(syncDir(f.path(f.raftPath)), syncDir(f.root)); err != nil {
		err = unusableError(f.root, err)
	} else {
		err = saveFile(f, raftFile, raftMarker{Format: format})
	}
	if err != nil {
		return rawStores{}, errors.Join(err, opened.close())
	}
	return opened, nil
}

// openLibraryStores opens the files of the libraries in raft/.
func (f *files) openLibraryStores(options StoreOptions) (rawStores, error) {
	dir := f.path(f.raftPath)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return rawStores{}, unusableError(f.root, err)
	}
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(dir, maxSnapshots, options.hclog())
	if err != nil {
		return rawStores{}, unusableError(f.root, fmt.Errorf("snapshots in %q: %w", dir, err))
	}
	logPath := filepath.Join(dir, logFile)
	if !exists(logPath) {
		if err = createLog(logPath); err != nil {
			return rawStores{}, unusableError(f.root, fmt.Errorf("make raft log %q: %w", logPath, err))
		}
	}
	db, err := openLog(logPath)
	if errors.Is(err, bberrors.ErrTimeout) {
		return rawStores{}, fmt.Errorf("disk: raft log %q is in use by another process", logPath)
	}
	if err != nil {
		return rawStores{}, unusableError(f.root, fmt.Errorf("raft log %q: %w", logPath, err))
	}
	return rawStores{logs: db, stable: db, snapshots: snapshots, close: db.Close}, nil
}

// createLog creates the log file completely or not at all. bbolt crashes with a signal on a
// truncated file, as a full disk would leave it.
func createLog(path string) error {
	temporary := path + ".tmp"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	logDB, err := openLog(temporary)
	if err != nil {
		return err
	}
	if err := logDB.Close(); err != nil {
		return err
	}
	return os.Rename(temporary, path)
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
