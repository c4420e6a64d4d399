// Package statefile keeps the state of shards in a directory that all apps share: a
// stand-in for a bucket, for the sample app and for tests.
//
// Each ownership of a shard writes a file of its own, with the ownership epoch in its
// name. The next owner first leaves its epoch there, then begins with what the newest file
// says, and writes into its own; so what comes late from an earlier one is in a file that nobody reads any more, and
// whoever wrote it is told. No lock is needed, and nothing that all file systems and
// buckets do not have: a name that is written whole or not at all.
//
// A write is as safe as the page cache: it survives the end of any process, not that of
// the machine.
package statefile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrFenced reports that a later owner has taken the shard: what this one holds counts no
// more.
var ErrFenced = errors.New("statefile: fenced: the shard has a later owner")

// Dir is the directory. Any number of processes use it at once; of each shard, one
// goroutine in each.
type Dir string

// Take begins an ownership, or goes on with it: it returns the state that the shard had
// last, nil if it never had one, and from then on fences every earlier owner.
func (d Dir) Take(shard uint32, epoch uint64) (state []byte, err error) {
	if err = os.MkdirAll(d.folder(shard), 0o700); err != nil {
		return nil, err
	}
	// First this: whoever writes for an earlier epoch either has written before the state
	// is read, or finds it afterwards.
	if err = os.WriteFile(d.file(shard, epoch)+claim, nil, 0o600); err != nil {
		return nil, err
	}
	written, claimed, err := d.newest(shard)
	switch {
	case err != nil:
		return nil, err
	case claimed > epoch:
		return nil, fenced(shard, epoch, claimed)
	case written == 0:
		return nil, nil
	}
	state, err = os.ReadFile(d.file(shard, written))
	if err != nil || written == epoch {
		return state, err
	}
	if err := d.Save(shard, epoch, state); err != nil {
		return nil, err
	}
	_ = os.Remove(d.file(shard, written)) // a concurrent reader fails and retries
	_ = os.Remove(d.file(shard, written) + claim)
	return state, nil
}

// Save writes the state of an ownership that was taken.
func (d Dir) Save(shard uint32, epoch uint64, state []byte) error {
	f, err := os.CreateTemp(d.folder(shard), "new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(state)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), d.file(shard, epoch))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	// Looked at last, see Take.
	switch _, claimed, err := d.newest(shard); {
	case err != nil:
		return err
	case claimed > epoch:
		return fenced(shard, epoch, claimed)
	}
	return nil
}

func fenced(shard uint32, epoch, last uint64) error {
	return fmt.Errorf("%w: shard %d is of epoch %d, and this is %d", ErrFenced, shard, last, epoch)
}

// claim ends the name of the file that says that an epoch was taken.
const claim = ".taken"

// newest returns the highest epoch that has written and the highest that was taken, 0 if
// none has.
func (d Dir) newest(shard uint32) (written, claimed uint64, err error) {
	files, err := os.ReadDir(d.folder(shard))
	for _, f := range files {
		name, taken := strings.CutSuffix(f.Name(), claim)
		switch epoch, bad := strconv.ParseUint(name, 10, 64); {
		case bad != nil:
		case taken:
			claimed = max(claimed, epoch)
		default:
			written = max(written, epoch)
		}
	}
	return written, claimed, err
}

func (d Dir) folder(shard uint32) string {
	return filepath.Join(string(d), strconv.FormatUint(uint64(shard), 10))
}

func (d Dir) file(shard uint32, epoch uint64) string {
	return filepath.Join(d.folder(shard), strconv.FormatUint(epoch, 10))
}
