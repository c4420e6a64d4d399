package disk

import (
	"errors"

	"github.com/hashicorp/raft"
)

// backend is where a Dir keeps its files: a directory or a Memory.
type backend interface {
	// read returns a file's content, or an error that is fs.ErrNotExist, errLong, or
	// what keeps it from being read.
	read(name string) ([]byte, error)
	// write replaces a file; it is durable when write returns.
	write(name string, data []byte) error
	// rename gives a file another name.
	rename(from, to string) error
	// path returns where a file of the libraries lies, "" if nowhere.
	path(name string) string
	// foreign names something that only a directory in use holds, or "".
	foreign() string
	// stores opens the stores under Raft.
	stores(o StoreOptions) (rawStores, error)
	// unlock lets the next Open have it.
	unlock() error
}

// mostFile is how long a file beside the stores may be, in bytes. The longest is
// known.json: its 1024 disks are some 300 KB.
const mostFile = 4 << 20

// errLong reports one that is longer: this program does not write such.
var errLong = errors.New("longer than 4 MiB")

// rawStores are the stores without guard and cache.
type rawStores struct {
	logs   raft.LogStore
	stable raft.StableStore
	snaps  raft.SnapshotStore
	close  func() error
}
