package disk

import (
	"errors"

	"github.com/hashicorp/raft"
)

// backend stores the files of a Dir: in a directory or in a Memory.
type backend interface {
	// read returns the content of a file. The error is fs.ErrNotExist, errTooLong, or the
	// reason why the file cannot be read.
	read(name string) ([]byte, error)
	// write replaces a file. The content is durable when write returns.
	write(name string, data []byte) error
	// rename renames a file.
	rename(from, to string) error
	// path returns the path of a file that a library opens, "" if there is none.
	path(name string) string
	// usedFile returns the name of a file that only a used directory contains, "" if there
	// is none.
	usedFile() string
	// openStores opens the Raft stores.
	openStores(o StoreOptions) (rawStores, error)
	// unlock releases the lock, so that the next Open succeeds.
	unlock() error
}

// maxFileSize is the maximum size in bytes of a file other than the stores. The largest file is
// known.json, whose 1024 disks take about 300 KB.
const maxFileSize = 4 << 20

// errTooLong is the error for a larger file, which this program never writes.
var errTooLong = errors.New("longer than 4 MiB")

// rawStores are the stores without guard and cache.
type rawStores struct {
	logs      raft.LogStore
	stable    raft.StableStore
	snapshots raft.SnapshotStore
	close     func() error
}
