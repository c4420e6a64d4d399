// Package statefile stores the state of shards in a directory that all apps share. The sample app
// and tests use it instead of an object store.
//
// Each owner of a shard writes its own file, whose name is the ownership epoch. A new owner first
// creates a marker file for its epoch. Then it reads the newest state file, and copies that state
// into its own file. A late write of an earlier owner therefore changes a file that no owner reads
// any longer, and Save returns ErrFenced to that owner. This needs no locks, only atomic
// replacement of a file by the file system or object store.
//
// Files are not synced. A write survives the death of every process, but not a crash of the
// machine.
package statefile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrFenced reports that the shard has a later owner. The caller must discard its copy of
// the state.
var ErrFenced = errors.New("statefile: fenced: the shard has a later owner")

// Dir is the path of the directory. Any number of processes may use it concurrently. Within
// one process, only one goroutine at a time may use a shard.
type Dir string

// Take begins the ownership of a shard under an epoch, or continues it after a restart. It
// returns the newest state of the shard; nil means that the shard never had any. From then
// on, writes of all earlier owners fail with ErrFenced.
func (d Dir) Take(shard uint32, epoch uint64) (state []byte, err error) {
	if err = os.MkdirAll(d.folder(shard), 0o700); err != nil {
		return nil, err
	}
	// The marker must exist before the state is read. An earlier owner has then either written
	// before the read, or finds the marker after its write and gets ErrFenced.
	if err = os.WriteFile(d.file(shard, epoch)+markerSuffix, nil, 0o600); err != nil {
		return nil, err
	}
	written, claimed, err := d.newestEpochs(shard)
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
	_ = os.Remove(d.file(shard, written) + markerSuffix)
	return state, nil
}

// Save writes the state of a shard. The caller must have called Take for this epoch. It
// returns ErrFenced if a later owner has called Take since.
func (d Dir) Save(shard uint32, epoch uint64, state []byte) error {
	temp, err := os.CreateTemp(d.folder(shard), "new-*")
	if err != nil {
		return err
	}
	_, err = temp.Write(state)
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), d.file(shard, epoch))
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	// Check the markers after the write: a check before it could miss a later owner that reads the
	// old state in between.
	switch _, claimed, err := d.newestEpochs(shard); {
	case err != nil:
		return err
	case claimed > epoch:
		return fenced(shard, epoch, claimed)
	}
	return nil
}

// fenced returns the error of an owner under epoch after a later owner under last has taken the shard.
func fenced(shard uint32, epoch, last uint64) error {
	return fmt.Errorf("%w: shard %d is of epoch %d, and this is %d", ErrFenced, shard, last, epoch)
}

// markerSuffix is the suffix of a marker file, which shows that Take was called for an epoch.
const markerSuffix = ".taken"

// newestEpochs returns the highest epoch with a state file and the highest one with a marker file,
// or 0 if there is no such file.
func (d Dir) newestEpochs(shard uint32) (written, claimed uint64, err error) {
	files, err := os.ReadDir(d.folder(shard))
	for _, f := range files {
		name, isMarker := strings.CutSuffix(f.Name(), markerSuffix)
		switch epoch, parseErr := strconv.ParseUint(name, 10, 64); {
		case parseErr != nil:
		case isMarker:
			claimed = max(claimed, epoch)
		default:
			written = max(written, epoch)
		}
	}
	return written, claimed, err
}

// folder returns the path of the directory of a shard.
func (d Dir) folder(shard uint32) string {
	return filepath.Join(string(d), strconv.FormatUint(uint64(shard), 10))
}

// file returns the path of the state file of a shard that the owner under epoch writes.
func (d Dir) file(shard uint32, epoch uint64) string {
	return filepath.Join(d.folder(shard), strconv.FormatUint(epoch, 10))
}
