package disk_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"

	"shardway/node/disk"
)

// The node logs a single line before it stops, so that line must contain the remedy.
func TestFailedWriteErrorContainsRemedy(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&fs.PathError{Op: "write", Path: "/x", Err: syscall.ENOSPC}, "free space"},
		{syscall.EDQUOT, "free space"},
		{fmt.Errorf("commit: %w", syscall.EIO), "check the disk"},
		{syscall.EROFS, "mount it for writing"},
		{syscall.EACCES, "make it writable"},
		{errors.New("page 7 already freed"), "shardway remove"},
	} {
		m := disk.NewMemory()
		d, err := m.Open("a")
		if err != nil {
			t.Fatal(err)
		}
		s, err := d.OpenStores(disk.StoreOptions{})
		if err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		s.SetCallbacks(func(err error) { failed <- err }, nil)
		m.SetStoreFault(func(string) error { return c.err })
		go func() { _ = s.Logs.StoreLog(&raft.Log{Index: 1, Term: 1}) }() // ends with Close
		got := <-failed
		if text := got.Error(); !strings.Contains(text, c.want) || !errors.Is(got, c.err) || strings.Contains(text, "\n") {
			t.Errorf("%v: told %q, want one line with %q", c.err, text, c.want)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
