package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// CheckWritable returns an error if Open could not create the data directory or write to
// it. It changes nothing and takes no lock, so a node may be using the directory.
func CheckWritable(path string) error {
	info, err := os.Stat(path)
	if err == nil {
		if err = checkWritableDir(path, info); err == nil {
			err = checkWritableFile(filepath.Join(path, lockFile))
		}
		return describeWriteError(path, err)
	}
	parent := path
	for errors.Is(err, fs.ErrNotExist) && parent != filepath.Dir(parent) {
		parent = filepath.Dir(parent)
		info, err = os.Stat(parent)
	}
	if err == nil {
		err = checkWritableDir(parent, info)
	}
	if err != nil {
		return fmt.Errorf("directory %q does not exist and cannot be created: %w; make it writable for the user that runs the node, or name another with --data", path, err)
	}
	return nil
}

// describeWriteError adds the path and a remedy to the error of a check. It returns nil for a nil error.
func describeWriteError(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("directory %q cannot be written: %w; %s", path, err, remedy(err))
}

// checkWritableDir returns an error if path is not a directory in which this process can create files.
func checkWritableDir(path string, info fs.FileInfo) error {
	if !info.IsDir() {
		return &fs.PathError{Op: "open", Path: path, Err: unix.ENOTDIR}
	}
	return checkAccess(path, unix.W_OK|unix.X_OK)
}

// checkWritableFile returns an error if an existing file cannot be written. A missing file
// is not an error.
func checkWritableFile(path string) error {
	if err := checkAccess(path, unix.R_OK|unix.W_OK); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// checkAccess checks whether this process may use the path in the given mode.
func checkAccess(path string, mode uint32) error {
	if err := unix.Faccessat(unix.AT_FDCWD, path, mode, unix.AT_EACCESS); err != nil {
		return &fs.PathError{Op: "access", Path: path, Err: err}
	}
	return nil
}
