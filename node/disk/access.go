package disk

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// asidePrefix begins the name of a directory with files that a recovery replaced.
const asidePrefix = "before-"

// DirAccess describes the access that other users of the machine had to a data directory.
// The zero value means that all users had none.
type DirAccess struct {
	// Mode is the mode of the directory when it was opened, if every user of the machine
	// had access. Otherwise it is zero.
	Mode fs.FileMode
	// Removed reports that this access was removed.
	Removed bool
}

// restrictAccess removes the access of all users of the machine to the directory. Such
// access is rarely intended: it results from a umask or an image. Access of the group alone
// is kept, because an operator granted it explicitly. The mode is not changed if another
// user owns the directory, such as a volume of a container, or if it contains files other
// than those of a node. All files of the node are private in any case.
func (b *files) restrictAccess() DirAccess {
	st, err := os.Stat(b.dir)
	if err != nil || st.Mode().Perm()&0o007 == 0 {
		return DirAccess{}
	}
	o := DirAccess{Mode: st.Mode().Perm()}
	if st.Mode()&fs.ModeSticky == 0 && b.onlyNodeFiles() {
		o.Removed = os.Chmod(b.dir, st.Mode()&^0o077) == nil
	}
	return o
}

// rejectLinks returns an error if a file that the node writes is a symbolic link. A user
// who may create files in the directory could otherwise make the node truncate or overwrite
// a file elsewhere to which that user has no access. Directories may be links: operators
// choose their location, and no file is truncated through them. Files that are opened later
// are opened without following links. Files that a library opens can only be checked here,
// in advance.
func (b *files) rejectLinks() error {
	names := []string{lockFile, gossipFile, gossipFile + ".compact", filepath.Join(raftDir, logFile), filepath.Join(raftDir, logFile+".tmp")}
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return unusable(b.dir, err)
	}
	for _, e := range entries {
		if filepath.Ext(strings.TrimSuffix(e.Name(), ".tmp")) == ".json" {
			names = append(names, e.Name())
		}
	}
	for _, name := range names {
		if st, err := os.Lstat(b.path(name)); err == nil && st.Mode()&fs.ModeSymlink != 0 {
			return linked(b.path(name))
		}
	}
	return nil
}

// linked returns the error for a symbolic link.
func linked(path string) error {
	return fmt.Errorf("disk: %s is a symbolic link, and the node would write to its target: remove it, and check which users can write to the data directory", path)
}

// onlyNodeFiles reports whether the directory contains only files of a node: its own files, JSON
// files, its socket, files that a recovery replaced, and lost+found of a volume.
func (b *files) onlyNodeFiles() bool {
	entries, err := os.ReadDir(b.dir)
	return err == nil && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		name := strings.TrimSuffix(e.Name(), ".tmp")
		return name != lockFile && name != gossipFile && name != gossipFile+".compact" && name != raftDir && name != "lost+found" &&
			name != socketFile && filepath.Ext(name) != ".json" && !strings.HasPrefix(name, asidePrefix)
	})
}

// Access returns the access that other users had when the directory was opened.
func (d *Dir) Access() DirAccess {
	if b, ok := d.b.(*files); ok {
		return b.access
	}
	return DirAccess{}
}
