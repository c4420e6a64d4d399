//go:build linux && (amd64 || arm64)

package rawio

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A deadline that is over stays so while the other one is set: for a moment nothing was over.
func TestDeadlineStaysWhileTheOtherIsSet(t *testing.T) {
	c, _ := pair(t, "127.0.0.1:0")
	defer func() { _ = c.Close() }()
	if err := c.SetWriteDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		for !over.Load() {
			_ = c.SetReadDeadline(time.Time{})
		}
	})
	for range 100_000 {
		if n, err := c.Write([]byte("x")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Write behind its deadline = %d, %v", n, err)
			break
		}
	}
	over.Store(true)
	all.Wait()
}

// Whoever closes a connection while others read it, write it, wait for it, set its deadlines and
// part with it: its descriptor is closed once, and used by none of them when it is another's.
func TestDescriptorIsClosedOnceWhateverIsDone(t *testing.T) {
	for range 300 {
		c, far := pair(t, "127.0.0.1:0")
		var all sync.WaitGroup
		do := func(f func() error) {
			all.Go(func() {
				for range 4 {
					if err := f(); errors.Is(err, net.ErrClosed) {
						return
					}
				}
			})
		}
		do(func() error { _, err := c.Write([]byte("a")); return err })
		do(func() error { _, err := c.Read(make([]byte, 1)); return err })
		do(func() error { return c.SetDeadline(time.Now().Add(time.Millisecond)) })
		do(func() error { return c.control(func(uintptr) {}) })
		var closed atomic.Int32
		for range 2 {
			all.Go(func() {
				if c.Close() == nil {
					closed.Add(1)
				}
			})
		}
		// What is opened meanwhile gets the number that has become free.
		near2, far2 := pair(t, "127.0.0.1:0")
		all.Wait()
		if n := closed.Load(); n != 1 {
			t.Fatalf("closed %d times", n)
		}
		if _, err := far2.Write([]byte("b")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 1)
		if n, err := near2.Read(got); n != 1 || err != nil || got[0] != 'b' {
			t.Fatalf("another connection reads %q, %v", got[:n], err)
		}
		_, _, _ = near2.Close(), far2.Close(), far.Close()
	}
}
