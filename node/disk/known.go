package disk

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// Known is what another node's disk has said of itself: the most of it, see
// package past.
type Known struct {
	// Server is "node/disk".
	Server string `json:"server"`
	// Boot and Nonce name the last process that is known of the disk.
	Boot  uint64 `json:"boot"`
	Nonce uint64 `json:"nonce"`
	// Term is a Raft term that it was in, Applied a committed epoch that it had
	// applied.
	Term    uint64 `json:"term"`
	Applied uint64 `json:"applied"`
}

// known is the content of known.json.
type known struct {
	Format int     `json:"format"`
	Disks  []Known `json:"disks"`
}

// stale is the content of stale.json: the disk is an older image of itself, or a
// copy.
type stale struct {
	Format int    `json:"format"`
	Why    string `json:"why"`
}

// Known returns what KeepKnown kept last. An error names the file: nothing in the
// directory depends on what is in it, and the next KeepKnown replaces it.
func (d *Dir) Known() ([]Known, error) {
	data, err := d.b.read(knownFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var k known
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	if err == nil && k.Format != format {
		err = fmt.Errorf("format %d, this program knows format %d", k.Format, format)
	}
	if err != nil {
		return nil, fmt.Errorf("disk: %s cannot be read: %w", where(d.b, knownFile), err)
	}
	return k.Disks, nil
}

// KeepKnown keeps, durably, what is known of other nodes' disks. It waits for the
// disk and keeps nobody else waiting.
func (d *Dir) KeepKnown(all []Known) error {
	d.keeping.Lock()
	defer d.keeping.Unlock()
	d.mu.Lock()
	done := d.done
	d.mu.Unlock()
	if done {
		return errClosed
	}
	return save(d.b, knownFile, known{Format: format, Disks: all})
}

// Condemn notes, durably, that the directory is an older image of the node's disk,
// or a copy. Open refuses it from now on: the boots that it counts would pass those
// of the disk that others know, and then nobody could tell.
func (d *Dir) Condemn(why string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done {
		return errClosed
	}
	return save(d.b, staleFile, stale{Format: format, Why: why})
}

// refuseStale returns an error that says what to do, if Condemn was called.
func refuseStale(b backend) error {
	var s stale
	found, err := load(b, staleFile, &s)
	if err != nil || !found {
		return err
	}
	return fmt.Errorf("disk: data directory %q must not be used any more: %s: %s", home(b), s.Why, RemedyStale)
}

// RemedyStale is what to do about an older image of a data directory, or a copy.
const RemedyStale = "start the node with an empty --data directory to join as a new disk (the cluster gives it what it needs)"
