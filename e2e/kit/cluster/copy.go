//go:build linux

package cluster

import (
	"io/fs"
	"os"
	"slices"
)

// CopyData copies the data directory of a node to a new directory, as an operator would:
// files, but no sockets of the node.
func CopyData(target, from string) error { return os.CopyFS(target, dirWithoutSockets{os.DirFS(from)}) }

// dirWithoutSockets is a file system without its sockets.
type dirWithoutSockets struct{ fs.FS }

func (f dirWithoutSockets) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(f.FS, name)
	return slices.DeleteFunc(all, func(entry fs.DirEntry) bool { return entry.Type()&fs.ModeSocket != 0 }), err
}
