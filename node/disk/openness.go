package disk

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// asidePrefix begins the name of what a recovery put aside.
const asidePrefix = "before-"

// Openness is what a data directory lets others of the machine do. The zero value:
// nothing that it did not before.
type Openness struct {
	// Mode is what it was when it was opened, if every user of the machine had
	// rights on it; else zero.
	Mode fs.FileMode
	// Closed means that they have none any more.
	Closed bool
}

// closeToOthers takes away the rights that every user of the machine has on the
// directory: nobody meant them, they come from a umask or an image. Rights of the
// group alone are left, somebody gave those. A directory that is somebody else's,
// such as a volume of a container, cannot be changed, and one that holds more than
// a node's files is not ours to change; all files in it are their owner's
// alone all the same.
func (b *files) closeToOthers() Openness {
	st, err := os.Stat(b.dir)
	if err != nil || st.Mode().Perm()&0o007 == 0 {
		return Openness{}
	}
	o := Openness{Mode: st.Mode().Perm()}
	if st.Mode()&fs.ModeSticky == 0 && b.ours() {
		o.Closed = os.Chmod(b.dir, st.Mode()&^0o077) == nil
	}
	return o
}

// refuseLinks returns an error if a file that is written here is a symbolic link.
// Whoever may make files in the directory, as the group may or everybody until it
// was closed to them, could have the node empty or overwrite a file elsewhere that
// he has no rights on. The directories may be links: an operator puts them where he
// wants, and nothing is emptied through them. What is opened later is opened without
// following links; the libraries' own files can only be judged here, before.
func (b *files) refuseLinks() error {
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

func linked(path string) error {
	return fmt.Errorf("disk: %s is a symbolic link, and the node would write to where it leads: remove it, and look who may write into the data directory", path)
}

// ours reports whether nothing is in the directory but what a node puts there: its
// few files, those of JSON, its socket, what a recovery put aside, and what a volume
// begins with.
func (b *files) ours() bool {
	entries, err := os.ReadDir(b.dir)
	return err == nil && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		name := strings.TrimSuffix(e.Name(), ".tmp")
		return name != lockFile && name != gossipFile && name != gossipFile+".compact" && name != raftDir && name != "lost+found" &&
			name != socketFile && filepath.Ext(name) != ".json" && !strings.HasPrefix(name, asidePrefix)
	})
}

// Openness returns what the data directory let others do when it was opened.
func (d *Dir) Openness() Openness {
	if b, ok := d.b.(*files); ok {
		return b.openness
	}
	return Openness{}
}
