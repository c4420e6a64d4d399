package disk_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"shardway/node/disk"
)

// A read can fail because of a temporary disk error or a lack of file descriptors. The file
// must then stay in place and must not be overwritten, or the node would lose the table.
func TestUnreadableKnownFileIsNotOverwritten(t *testing.T) {
	path := t.TempDir()
	file, away := filepath.Join(path, "known.json"), filepath.Join(path, "away")
	d := mustOpen(t, path, "a")
	defer func() { _ = d.Close() }()
	want := []disk.DiskRecord{{Server: "b/x", Boot: 7, Nonce: 1, Term: 3, Applied: 4}}
	// A directory in place of the file can be opened, and every read of it fails.
	if err := errors.Join(d.StoreDiskRecords(want), os.Rename(file, away), os.Mkdir(file, 0o700)); err != nil {
		t.Fatal(err)
	}
	known, err := d.DiskRecords()
	if len(known) != 0 || !errors.Is(err, syscall.EISDIR) || !strings.Contains(err.Error(), file) {
		t.Errorf("Known() = %v, %v, want nothing and an error that names %s and says why", known, err, file)
	}
	if _, err := os.Stat(filepath.Join(path, "damaged-known.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was put aside (%v)", err)
	}
	if err := errors.Join(os.RemoveAll(file), os.Rename(away, file)); err != nil {
		t.Fatal(err)
	}
	if err := d.StoreDiskRecords(nil); err == nil {
		t.Error("what was never read is written over")
	}
	if known, err := d.DiskRecords(); err != nil || !slices.Equal(known, want) {
		t.Errorf("when it can be read again: %v, %v, want %v", known, err, want)
	}
	if err := d.StoreDiskRecords(nil); err != nil {
		t.Errorf("read, and not to be written: %v", err)
	}
}

// Known must not read a file of arbitrary size into memory.
func TestOversizedKnownFileIsRefused(t *testing.T) {
	path := t.TempDir()
	file := filepath.Join(path, "known.json")
	d := mustOpen(t, path, "a")
	defer func() { _ = d.Close() }()
	want := []disk.DiskRecord{{Server: "b/x", Boot: 7}}
	// Nearly the whole file is sparse.
	if err := errors.Join(d.StoreDiskRecords(want), os.Truncate(file, 128<<20)); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	known, err := d.DiskRecords()
	runtime.ReadMemStats(&after)
	if len(known) != 0 || err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("Known() = %v, %v, want nothing and that it is too long", known, err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
		t.Errorf("%d bytes were taken to read it", took)
	}
	if s, err := os.Stat(filepath.Join(path, "damaged-known.json")); err != nil || s.Size() != 128<<20 {
		t.Errorf("it is not put aside: %v", err)
	}
	if err := d.StoreDiskRecords([]disk.DiskRecord{{Server: strings.Repeat("x", 5<<20)}}); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("KeepKnown of what is not read again = %v, want an error", err)
	}
}
