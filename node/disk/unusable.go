package disk

import (
	"errors"
	"fmt"
	"syscall"
)

// unusable says what to do about a directory that cannot be worked with.
func unusable(dir string, err error) error {
	return fmt.Errorf("disk: data directory %q is not usable: %s: %w", dir, remedy(err), err)
}

// remedy is what an operator does about an error of the file system, or about
// contents that the libraries refuse.
func remedy(err error) string {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return "restore it, or remove the node (shardway remove) and let it join with an empty one"
	}
	switch errno { //nolint:exhaustive // the rest has one remedy
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

// home is where the directory lies.
func home(b backend) string {
	if p := b.path("."); p != "" {
		return p
	}
	return "in memory"
}
