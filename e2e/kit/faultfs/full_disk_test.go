//go:build linux

package faultfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"shardway/e2e/kit/faultfs"
	"shardway/node/disk"
)

// The disk is full at each page that a new data directory needs, and has space again
// later. The directory must be usable at any point. A log with only its beginning once
// killed the process.
func TestNodeStartsAfterDirectoryWasCreatedOnFullDisk(t *testing.T) {
	requireFaults(t)
	d := mount(t, 1<<20)
	begin := func(dir string) error {
		d, err := disk.Open(dir, "a")
		if err != nil {
			return err
		}
		_, err = d.OpenStores(disk.StoreOptions{})
		return errors.Join(err, d.Close())
	}
	room, err := d.FreeBytes()
	must(t, err)
	full := 0
	for pages := range int64(40) {
		awaitFreeSpace(t, d, room)
		dir := filepath.Join(d.Dir, strconv.FormatInt(pages, 10))
		must(t, d.Fill())
		filler := filepath.Join(d.Dir, "filler")
		s, err := os.Stat(filler)
		must(t, err)
		must(t, os.Truncate(filler, s.Size()-pages*int64(os.Getpagesize())))
		err = begin(dir)
		if err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%d pages left: %v", pages, err)
		}
		if err != nil {
			full++
		}
		must(t, d.RemoveFiller())
		if err := begin(dir); err != nil {
			t.Errorf("%d pages were left, then there was room: %v", pages, err)
		}
		must(t, os.RemoveAll(dir))
	}
	if full < 5 || full == 40 {
		t.Errorf("full %d times of 40, want the beginning", full)
	}
}

// awaitFreeSpace waits until this number of bytes is free: the kernel frees the space of files
// later than they are deleted.
func awaitFreeSpace(t *testing.T, disk *faultfs.Disk, room int64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		remaining, err := disk.FreeBytes()
		must(t, err)
		if remaining >= room {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are left of %d", remaining, room)
		}
	}
}
