package disk

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
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
	Format int `json:"format"`
	// Sum is the CRC-32C, in hexadecimal, of the bytes of Disks.
	Sum   string          `json:"sum"`
	Disks json.RawMessage `json:"disks"`
}

// damagedKnown is where a known.json goes that cannot be used.
const damagedKnown = "damaged-" + knownFile

// ErrUnread says that nothing is written over a known.json that is there and could not be read.
var ErrUnread = errors.New("it could not be read, so nothing is written over it: make it readable, or remove it")

func sumOf(disks []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(disks, crc32.MakeTable(crc32.Castagnoli)))
}

// stale is the content of stale.json: the disk is an older image of itself, or a
// copy.
type stale struct {
	Format int    `json:"format"`
	Why    string `json:"why"`
}

// Known returns what KeepKnown kept last. If that is damaged, the error names
// the file and what is wrong with it, and the file is put aside: one digit that
// flipped, a boot or a term too high, would have a healthy disk refused and its node
// stopped for good. If it only cannot be read (a process without a file descriptor to
// spare, for one), it stays, and KeepKnown writes nothing over it until Known has read
// it.
//
// To begin anew costs what only this node knew: that a disk is an older image of
// itself shows until the next start of the cluster by what the other voters keep,
// who were told the same, each by itself. It takes a second fault at the same time,
// that image and nobody else left who heard of it, to pass.
func (d *Dir) Known() ([]Known, error) {
	d.keeping.Lock()
	defer d.keeping.Unlock()
	data, err := d.b.read(knownFile)
	d.unread = err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errLong)
	switch {
	case d.unread:
		return nil, fmt.Errorf("disk: %s cannot be read, and stays as it is: %w: %w", where(d.b, knownFile), err, ErrUnread)
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	}
	var all []Known
	if err == nil {
		all, err = parseKnown(data)
	}
	if err != nil {
		err = fmt.Errorf("disk: %s cannot be used: %w", where(d.b, knownFile), err)
		return nil, errors.Join(err, d.b.rename(knownFile, damagedKnown))
	}
	return all, nil
}

func parseKnown(data []byte) (all []Known, err error) {
	var k known
	if err = json.Unmarshal(data, &k); err != nil {
		return nil, err
	}
	if k.Format != format {
		return nil, fmt.Errorf("format %d, this program knows format %d", k.Format, format)
	}
	if sum := sumOf(k.Disks); sum != k.Sum {
		return nil, fmt.Errorf("its checksum is %s and it says %q", sum, k.Sum)
	}
	return all, json.Unmarshal(k.Disks, &all)
}

// KeepKnown keeps, durably, what is known of other nodes' disks. If what was kept
// before could not be read, it returns ErrUnread. It waits for the disk and keeps nobody else waiting.
func (d *Dir) KeepKnown(all []Known) error {
	d.keeping.Lock()
	defer d.keeping.Unlock()
	d.mu.Lock()
	done := d.done
	d.mu.Unlock()
	if done {
		return errClosed
	}
	if d.unread {
		return fmt.Errorf("disk: %s: %w", where(d.b, knownFile), ErrUnread)
	}
	disks, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("disk: %s: %w", knownFile, err)
	}
	if len(disks) > mostFile-1<<10 { // room for the rest of it
		return fmt.Errorf("disk: %s: %w", knownFile, errLong)
	}
	return save(d.b, knownFile, known{Format: format, Sum: sumOf(disks), Disks: disks})
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
