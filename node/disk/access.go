package disk

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// previousDirPrefix is the prefix of the names of directories with files that a recovery replaced.
const previousDirPrefix = "before-"

// DirAccess describes the access that other users of the machine had to a data directory. The zero
// value means no access.
type DirAccess struct {
	// Mode is the mode of the directory when it was opened, if every user of the machine
	// had access. Otherwise it is zero.
	Mode fs.FileMode
	// Removed reports that this access was removed.
	Removed bool
}

// restrictAccess removes the access of all users of the machine to the directory. Such access is
// rarely intended: it results from a umask or an image. Access of the group alone is kept, because
// an operator granted it explicitly. The mode is not changed if another user owns the directory,
// such as a volume of a container, or if it contains files other than those of a node. The node's
// files are private in any case.
func (f *files) restrictAccess() DirAccess {
	info, err := os.Stat(f.root)
	if err != nil || info.Mode().Perm()&0o007 == 0 {
		return DirAccess{}
	}
	access := DirAccess{Mode: info.Mode().Perm()}
	if info.Mode()&fs.ModeSticky == 0 && f.containsOnlyNodeFiles() {
		access.Removed = os.Chmod(f.root, info.Mode()&^0o077) == nil
	}
	return access
}

// rejectLinks returns an error if a file that the node writes is a symbolic link. A user
// who may create files in the directory could otherwise make the node truncate or overwrite
// a file elsewhere to which that user has no access. Directories may be links: operators
// choose their location, and no file is truncated through them. Files that are opened later
// are opened without following links. Files that a library opens can only be checked here,
// in advance.
func (f *files) rejectLinks() error {
	names := []string{lockFile, gossipFile, gossipFile + ".compact", filepath.Join(raftDir, logFile), filepath.Join(raftDir, logFile+".tmp")}
	entries, err := os.ReadDir(f.root)
	if err != nil {
		return unusableError(f.root, err)
	}
	for _, entry := range entries {
		if filepath.Ext(strings.TrimSuffix(entry.Name(), ".tmp")) == ".json" {
			names = append(names, entry.Name())
		}
	}
	for _, name := range names {
		if info, err := os.Lstat(f.path(name)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return symlinkError(f.path(name))
		}
	}
	return nil
}

// symlinkError returns the error for a file that is a symbolic link.
func symlinkError(path string) error {
	return fmt.Errorf("disk: %s is a symbolic link, and the node would write to its target: remove it, and check which users can write to the data directory", path)
}

// containsOnlyNodeFiles reports whether the directory contains only files of a node: its own files, JSON
// files, its socket, files that a recovery replaced, and lost+found of a volume.
func (f *files) containsOnlyNodeFiles() bool {
	entries, err := os.ReadDir(f.root)
	return err == nil && !slices.ContainsFunc(entries, func(entry fs.DirEntry) bool { return !isNodeFile(entry.Name()) })
}

// isNodeFile reports whether a file in the data directory may belong to a node.
func isNodeFile(name string) bool {
	name = strings.TrimSuffix(name, ".tmp")
	switch name {
	case lockFile, gossipFile, gossipFile + ".compact", raftDir, socketFile, "lost+found":
		return true
	}
	return filepath.Ext(name) == ".json" || strings.HasPrefix(name, previousDirPrefix)
}

// Access returns the access that other users had when the directory was opened.
func (d *Dir) Access() DirAccess {
	if files, ok := d.backend.(*files); ok {
		return files.access
	}
	return DirAccess{}
}
