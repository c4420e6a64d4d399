package demo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// scratchPrefix starts nobody else's names: what has it and no lock is removed.
const scratchPrefix = "shardway-demo-run-"

// scratch is the directory of one demo. Its processes hold a lock on it, so what
// a demo left behind that was killed can be told from one that runs, in whichever
// container.
type scratch struct {
	dir  string
	lock *os.File // the directory itself
}

// newScratch makes the directory, and removes those of demos that are no more.
func newScratch() (*scratch, error) {
	sweepScratch()
	for {
		dir, err := os.MkdirTemp("", scratchPrefix)
		if err != nil {
			return nil, fmt.Errorf("demo: %w", err)
		}
		s, err := lockScratch(dir)
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.EWOULDBLOCK) {
			return s, err
		}
		// Another demo took it for an old one before it was locked.
	}
}

// lockScratch takes the lock of a directory, if that is there and nobody's.
func lockScratch(dir string) (*scratch, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0) //nolint:gosec // a directory of this package's name
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("demo: lock %q: %w", dir, err), f.Close())
	}
	if _, err := os.Stat(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("demo: %w", err), f.Close())
	}
	return &scratch{dir: dir, lock: f}, nil
}

// remove removes the directory. All processes of the demo have ended.
func (s *scratch) remove() error {
	return errors.Join(os.RemoveAll(s.dir), s.lock.Close())
}

// sweepScratch removes what it can: directories may be other users'.
func sweepScratch() {
	old, err := filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+"*"))
	if err != nil {
		return // of the pattern only
	}
	for _, dir := range old {
		if s, err := lockScratch(dir); err == nil {
			_ = s.remove()
		}
	}
}
