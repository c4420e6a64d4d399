package disk

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
)

// DiskRecord contains the highest values that another node has reported about its disk, see package
// diskhistory.
type DiskRecord struct {
	// Server is "node/disk".
	Server string `json:"server"`
	// Boot and Nonce identify the latest known process of the disk.
	Boot  uint64 `json:"boot"`
	Nonce uint64 `json:"nonce"`
	// Term is a Raft term that the disk has reached. Applied is a committed epoch that it
	// has applied.
	Term    uint64 `json:"term"`
	Applied uint64 `json:"applied"`
}

// knownContent is the content of known.json.
type knownContent struct {
	Format int `json:"format"`
	// Sum is the CRC-32C of the bytes of Disks in hexadecimal.
	Sum   string          `json:"sum"`
	Disks json.RawMessage `json:"disks"`
}

// damagedKnownFile is the new name of an unusable known.json.
const damagedKnownFile = "damaged-" + knownFile

// ErrUnreadable reports that known.json exists but could not be read, so it is not overwritten.
var ErrUnreadable = errors.New("the file could not be read, so it is not overwritten: make it readable, or remove it")

// checksumOf returns the CRC-32C of the encoded disks in hexadecimal.
func checksumOf(disks []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(disks, crc32.MakeTable(crc32.Castagnoli)))
}

// stale is the content of stale.json: the directory is an older image of the disk, or a
// copy.
type stale struct {
	Format int    `json:"format"`
	Why    string `json:"why"`
}

// DiskRecords returns the content that StoreDiskRecords stored last. If the file is damaged,
// DiskRecords renames it and returns an error that describes the damage. A single flipped digit,
// such as a boot number or term that is too high, would otherwise make the node reject a healthy
// disk and stop that disk's node forever. If the file cannot be read, for example for lack of a
// file descriptor, it stays in place. StoreDiskRecords does not overwrite it until DiskRecords has
// read it.
//
// Starting with an empty table loses only information of this node. The other voters have
// recorded the same reports independently, so until the next start of the cluster they
// still recognize an older image of a disk. Such an image passes only if at the same time
// no other node remains that has recorded the reports.
func (d *Dir) DiskRecords() ([]DiskRecord, error) {
	d.knownMu.Lock()
	defer d.knownMu.Unlock()
	data, err := d.backend.read(knownFile)
	d.knownUnreadable = err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errTooLong)
	switch {
	case d.knownUnreadable:
		return nil, fmt.Errorf("disk: %s cannot be read and was not changed: %w: %w", displayPath(d.backend, knownFile), err, ErrUnreadable)
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	}
	var records []DiskRecord
	if err == nil {
		records, err = parseKnown(data)
	}
	if err != nil {
		err = fmt.Errorf("disk: %s cannot be used: %w", displayPath(d.backend, knownFile), err)
		return nil, errors.Join(err, d.backend.rename(knownFile, damagedKnownFile))
	}
	return records, nil
}

// parseKnown decodes the content of known.json and verifies its checksum.
func parseKnown(data []byte) (records []DiskRecord, err error) {
	var content knownContent
	if err = json.Unmarshal(data, &content); err != nil {
		return nil, err
	}
	if content.Format != format {
		return nil, fmt.Errorf("format %d, this program supports format %d", content.Format, format)
	}
	if computed := checksumOf(content.Disks); computed != content.Sum {
		return nil, fmt.Errorf("checksum is %s, but the file contains %q", computed, content.Sum)
	}
	return records, json.Unmarshal(content.Disks, &records)
}

// StoreDiskRecords durably stores the reports of other nodes' disks. It returns ErrUnreadable if the
// previous content could not be read. It waits for the disk, but other methods of d do not
// wait for it.
func (d *Dir) StoreDiskRecords(records []DiskRecord) error {
	d.knownMu.Lock()
	defer d.knownMu.Unlock()
	d.mu.Lock()
	closed := d.closed
	d.mu.Unlock()
	if closed {
		return errClosed
	}
	if d.knownUnreadable {
		return fmt.Errorf("disk: %s: %w", displayPath(d.backend, knownFile), ErrUnreadable)
	}
	disks, err := json.Marshal(records)
	if err != nil {
		return fmt.Errorf("disk: %s: %w", knownFile, err)
	}
	if len(disks) > maxFileSize-1<<10 { // leaves room for the other fields
		return fmt.Errorf("disk: %s: %w", knownFile, errTooLong)
	}
	return saveFile(d.backend, knownFile, knownContent{Format: format, Sum: checksumOf(disks), Disks: disks})
}

// MarkStale durably records that the directory is an older image of the node's disk, or a copy.
// Open refuses it from now on. Otherwise its boot number would eventually exceed the one that other
// nodes have recorded, and no node could recognize the image anymore.
func (d *Dir) MarkStale(reason string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	return saveFile(d.backend, staleFile, stale{Format: format, Why: reason})
}

// checkStale returns an error with a remedy if MarkStale was called.
func checkStale(b backend) error {
	var content stale
	found, err := loadFile(b, staleFile, &content)
	if err != nil || !found {
		return err
	}
	return fmt.Errorf("disk: data directory %q must not be used any more: %s: %s", displayDir(b), content.Why, RemedyStale)
}

// RemedyStale is the remedy for an older image of a data directory, or a copy.
const RemedyStale = "start the node with an empty --data directory to join as a new disk (the cluster gives it what it needs)"
