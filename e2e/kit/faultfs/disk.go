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
	// filler is the name of the file that Fill creates.
	filler   = "filler"
	pageSize = 4096
	// maxIO is the maximum size of a read or write request of the kernel, in bytes.
	maxIO = 128 << 10
)

// Disk is a mounted file system with injected faults. Any goroutine may call its methods.
type Disk struct {
	// Dir is its mount point.
	Dir string

	server *server

	mu          sync.Mutex
	isUnmounted bool
}

// Mount creates the directory and mounts a file system with this capacity on it, in
// bytes, rounded up to pages. A process in its own mount namespace must start after Mount
// to see the disk.
func Mount(dir string, bytes int64) (*Disk, error) {
	if err := UnmountOrphans(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("faultfs: %w", err)
	}
	if err = os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the process under test may run as another user
		return nil, fmt.Errorf("faultfs: %w", err)
	}
	tmpfs, err := newTmpfs(bytes)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tmpfs.Close() }()
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("faultfs: %w: FUSE is missing (modprobe fuse; docker run --device /dev/fuse --cap-add SYS_ADMIN)", err)
	}
	defer func() { _ = device.Close() }()
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,max_read=%d", device.Fd(), maxIO)
	if err = unix.Mount(mountSource(os.Getpid()), dir, fsType, unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return nil, fmt.Errorf("faultfs: mount a disk on %q: %w", dir, err)
	}
	server, err := startServer(device, tmpfs)
	if err != nil {
		return nil, errors.Join(err, unmount(dir))
	}
	return &Disk{Dir: dir, server: server}, nil
}

// newTmpfs returns an unmounted file system in memory. It is freed when the last process
// closes it.
func newTmpfs(bytes int64) (*os.File, error) {
	fsFD, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("faultfs: tmpfs: %w", err)
	}
	defer func() { _ = unix.Close(fsFD) }()
	if err = errors.Join(
		unix.FsconfigSetString(fsFD, "size", strconv.FormatInt(bytes, 10)),
		unix.FsconfigSetString(fsFD, "mode", "1777"),
		unix.FsconfigCreate(fsFD),
	); err != nil {
		return nil, fmt.Errorf("faultfs: tmpfs of %d bytes: %w", bytes, err)
	}
	mountFD, err := unix.Fsmount(fsFD, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("faultfs: tmpfs: %w", err)
	}
	return os.NewFile(uintptr(mountFD), "tmpfs"), nil
}

// SetFault applies a fault to all further calls, until Heal. It replaces an earlier
// fault.
func (d *Disk) SetFault(fault Fault) error {
	if err := fault.validate(); err != nil {
		return err
	}
	_, err := d.server.send(command{Fault: &fault})
	return err
}

// Hits returns the number of calls that the current or the last fault has affected. It includes calls
// that are still delayed.
func (d *Disk) Hits() (int, error) { return d.server.send(command{QueryHits: true}) }

// Heal ends the current fault and returns the number of affected calls. Delayed calls continue at
// once.
func (d *Disk) Heal() (hits int, err error) { return d.server.send(command{}) }

// Fill uses up the remaining space, until no further byte can be written. Space that is
// freed later can be filled by another call.
func (d *Disk) Fill() error {
	file, err := os.OpenFile(d.fillerPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("faultfs: fill: %w", err)
	}
	defer func() { _ = file.Close() }()
	for block := make([]byte, 256*pageSize); ; {
		n, err := file.Write(block)
		switch {
		case errors.Is(err, syscall.ENOSPC) && n == 0 && len(block) == 1:
			return nil
		case errors.Is(err, syscall.ENOSPC):
			block = block[:max(1, len(block)/2)] // the remaining space may be less than a block
		case err != nil:
			return fmt.Errorf("faultfs: fill: %w", err)
		}
	}
}

// RemoveFiller frees the space that Fill used.
func (d *Disk) RemoveFiller() error {
	if err := os.Remove(d.fillerPath()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("faultfs: free: %w", err)
	}
	return nil
}

// FreeBytes returns how many more bytes can be written to the disk.
func (d *Disk) FreeBytes() (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(d.Dir, &stat); err != nil {
		return 0, fmt.Errorf("faultfs: %q: %w", d.Dir, err)
	}
	return int64(stat.Bavail) * stat.Bsize, nil
}

// Unmount removes the disk with its contents and its directory. Calls of processes that
// still use it fail. Further calls of Unmount have no effect.
func (d *Disk) Unmount() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isUnmounted {
		return nil
	}
	d.isUnmounted = true
	err := unmount(d.Dir)
	d.server.kill()
	return err
}

func (d *Disk) fillerPath() string { return filepath.Join(d.Dir, filler) }

func unmount(dir string) error {
	if err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("faultfs: unmount %q: %w", dir, err)
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("faultfs: %w", err)
	}
	return nil
}
