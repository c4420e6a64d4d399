//go:build linux

package badisk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// filler is the file that Fill makes.
	filler = "filler"
	page   = 4096
)

// Disk is a file system of its own. Its methods may be called from any goroutine.
type Disk struct {
	// Dir is where it is mounted.
	Dir string

	mu   sync.Mutex
	gone bool
}

// Mount makes the directory and mounts a file system on it that holds that many
// bytes, rounded up to pages. A process in a mount namespace of its own sees it if
// it was started later.
func Mount(dir string, bytes int64) (*Disk, error) {
	if err := Sweep(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("badisk: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the process under test may be another user's
		return nil, fmt.Errorf("badisk: %w", err)
	}
	if err := unix.Mount(source(os.Getpid()), dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=1777", bytes)); err != nil {
		return nil, fmt.Errorf("badisk: mount %d bytes on %q: %w", bytes, dir, err)
	}
	return &Disk{Dir: dir}, nil
}

// Fill takes all that is left, until not a byte more can be written. What is
// deleted afterwards is space again: Fill may be called once more.
func (d *Disk) Fill() error {
	f, err := os.OpenFile(d.filler(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("badisk: fill: %w", err)
	}
	defer func() { _ = f.Close() }()
	for block := make([]byte, 256*page); ; {
		n, err := f.Write(block)
		switch {
		case errors.Is(err, syscall.ENOSPC) && n == 0 && len(block) == 1:
			return nil
		case errors.Is(err, syscall.ENOSPC):
			block = block[:max(1, len(block)/2)] // what is left may be less than a block
		case err != nil:
			return fmt.Errorf("badisk: fill: %w", err)
		}
	}
}

// Free gives back what Fill took.
func (d *Disk) Free() error {
	if err := os.Remove(d.filler()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("badisk: free: %w", err)
	}
	return nil
}

// Left is how many bytes can be written.
func (d *Disk) Left() (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(d.Dir, &s); err != nil {
		return 0, fmt.Errorf("badisk: %q: %w", d.Dir, err)
	}
	return int64(s.Bavail) * s.Bsize, nil
}

// Unmount removes the disk with all that is on it, and its directory. Processes
// that still use it keep what they have open. Only the first call does anything.
func (d *Disk) Unmount() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone {
		return nil
	}
	d.gone = true
	return unmount(d.Dir)
}

func (d *Disk) filler() string { return filepath.Join(d.Dir, filler) }

func unmount(dir string) error {
	if err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("badisk: unmount %q: %w", dir, err)
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("badisk: %w", err)
	}
	return nil
}
