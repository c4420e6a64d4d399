package disk

import (
	"errors"
	"fmt"
	"syscall"
)

// unusableError returns an error with a remedy for a directory that cannot be used.
func unusableError(dir string, err error) error {
	return fmt.Errorf("disk: data directory %q is not usable: %s: %w", dir, remedy(err), err)
}

// remedy returns what the operator should do about an error of the file system, or about
// content that a library rejects.
func remedy(err error) string {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return "restore it, or remove the node (shardway remove) and let it join with an empty one"
	}
	switch errno { //nolint:exhaustive // all other errors have the same remedy
	case syscall.ENOSPC, syscall.EDQUOT:
		return "free space, then start the node again"
	case syscall.EIO:
		return "check the disk, then start the node again; if its data is lost, remove the node (shardway remove) and let it join with an empty one"
	case syscall.EROFS:
		return "check the disk and mount it for writing, then start the node again"
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EINTR, syscall.EINVAL:
		return "the machine refuses what the node needs; fix that, then start the node again"
	}
	return "make it writable for this user, or name another with --data"
}

// displayDir returns the path of the directory for an error message.
func displayDir(dir backend) string {
	if path := dir.path("."); path != "" {
		return path
	}
	return "in memory"
}
