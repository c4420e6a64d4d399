package demo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// scratchPrefix is the prefix of scratch directories. No other program uses it: directories with this
// prefix and without a lock are removed.
const scratchPrefix = "shardway-demo-run-"

// scratch is the directory of a demo. The processes of the demo hold a lock on it. A directory without a
// lock belongs to a killed demo; process IDs would not prove that across containers.
type scratch struct {
	dir  string
	lock *os.File // the directory itself
}

// newScratch creates a directory, and removes the directories of killed demos.
func newScratch() (*scratch, error) {
	removeStaleScratch()
	for {
		dir, err := os.MkdirTemp("", scratchPrefix)
		if err != nil {
			return nil, fmt.Errorf("demo: %w", err)
		}
		s, err := lockScratch(dir)
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.EWOULDBLOCK) {
			return s, err
		}
		// Another demo removed the directory before it was locked.
	}
}

// lockScratch locks a directory. The error wraps os.ErrNotExist if the directory does not exist, and
// EWOULDBLOCK if another process holds the lock.
func lockScratch(dir string) (*scratch, error) {
	dirFile, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0) //nolint:gosec // a directory of this package's name
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	if err := syscall.Flock(int(dirFile.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("demo: lock %q: %w", dir, err), dirFile.Close())
	}
	if _, err := os.Stat(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("demo: %w", err), dirFile.Close())
	}
	return &scratch{dir: dir, lock: dirFile}, nil
}

// remove removes the directory. All processes of the demo must have exited.
func (s *scratch) remove() error {
	return errors.Join(os.RemoveAll(s.dir), s.lock.Close())
}

// removeStaleScratch removes the directories of killed demos. It ignores errors, because a directory may
// belong to another user.
func removeStaleScratch() {
	old, err := filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+"*"))
	if err != nil {
		return // cannot happen: the pattern is valid
	}
	for _, dir := range old {
		if s, err := lockScratch(dir); err == nil {
			_ = s.remove()
		}
	}
}
