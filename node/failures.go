package node

import (
	"errors"

	"shardway/ack"
	"shardway/node/disk"
	"shardway/node/identity"
)

// failures receives the errors that must stop the node.
type failures struct {
	dir   *disk.Dir
	first chan error // cap 1: the first failure
}

// newFailures returns failures without an error.
func newFailures(dir *disk.Dir) *failures { return &failures{dir: dir, first: make(chan error, 1)} }

// fail makes Node.Run stop the node and return err. Later failures are ignored. It does not block.
func (f *failures) fail(err error) {
	select {
	case f.first <- err:
	default:
	}
}

// recordInDir is called with the error that stops the node. If the data directory must not be used any more,
// or not by this program, recordInDir records that in the directory. It returns err and the errors of that
// write.
func (f *failures) recordInDir(err error) error {
	if stale, ok := errors.AsType[*identity.StaleDiskError](err); ok {
		return errors.Join(err, f.dir.MarkStale(stale.Reason.Error()))
	}
	if unsupported, ok := errors.AsType[*ack.FormatVersionError](err); ok && unsupported.InForce {
		return errors.Join(err, f.dir.StoreLevel(uint8(unsupported.Version)))
	}
	return err
}
