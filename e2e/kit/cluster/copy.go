//go:build linux

package cluster

import (
	"io/fs"
	"os"
	"slices"
)

// CopyData copies a node's data directory to one that is not there yet, as an operator
// would: files, and no socket that the node has there or has left.
func CopyData(to, from string) error { return os.CopyFS(to, files{os.DirFS(from)}) }

// files is a file system without its sockets.
type files struct{ fs.FS }

func (f files) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(f.FS, name)
	return slices.DeleteFunc(all, func(e fs.DirEntry) bool { return e.Type()&fs.ModeSocket != 0 }), err
}
