//go:build linux

package faultfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// filler is the file that Fill makes.
	filler = "filler"
	page   = 4096
	// most is how much is read or written by one request, in bytes.
	most = 128 << 10
)

// Disk is a file system of its own. Its methods may be called from any goroutine.
type Disk struct {
	// Dir is where it is mounted.
	Dir string

	server *server

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
	if err = os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the process under test may be another user's
		return nil, fmt.Errorf("badisk: %w", err)
	}
	tmpfs, err := newTmpfs(bytes)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tmpfs.Close() }()
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("badisk: %w: FUSE is missing (modprobe fuse; docker run --device /dev/fuse --cap-add SYS_ADMIN)", err)
	}
	defer func() { _ = device.Close() }()
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,max_read=%d", device.Fd(), most)
	if err = unix.Mount(source(os.Getpid()), dir, fsType, unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return nil, fmt.Errorf("badisk: mount a disk on %q: %w", dir, err)
	}
	s, err := startServer(device, tmpfs)
	if err != nil {
		return nil, errors.Join(err, unmount(dir))
	}
	return &Disk{Dir: dir, server: s}, nil
}

// newTmpfs makes a file system in memory that is mounted nowhere: it is gone when
// nobody has it open.
func newTmpfs(bytes int64) (*os.File, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("badisk: tmpfs: %w", err)
	}
	defer func() { _ = unix.Close(fs) }()
	if err = errors.Join(
		unix.FsconfigSetString(fs, "size", strconv.FormatInt(bytes, 10)),
		unix.FsconfigSetString(fs, "mode", "1777"),
		unix.FsconfigCreate(fs),
	); err != nil {
		return nil, fmt.Errorf("badisk: tmpfs of %d bytes: %w", bytes, err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("badisk: tmpfs: %w", err)
	}
	return os.NewFile(uintptr(fd), "tmpfs"), nil
}

// Suffer lets calls meet a fault from now on, until Heal, in place of the one there
// was.
func (d *Disk) Suffer(f Fault) error {
	if err := f.validate(); err != nil {
		return err
	}
	_, err := d.server.order(order{Fault: &f})
	return err
}

// Hits is how many calls have met the present fault, or the last one. One that
// waits counts.
func (d *Disk) Hits() (int, error) { return d.server.order(order{Count: true}) }

// Heal ends the fault, if there is one, and returns how many calls have met it. One
// that waits is done at once.
func (d *Disk) Heal() (hits int, err error) { return d.server.order(order{}) }

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

// Unmount removes the disk with all that is on it, and its directory. The calls of
// processes that still use it fail. Only the first call does anything.
func (d *Disk) Unmount() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone {
		return nil
	}
	d.gone = true
	err := unmount(d.Dir)
	d.server.end()
	return err
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
