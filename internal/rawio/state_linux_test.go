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

	"golang.org/x/sys/unix"
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

// open reports whether there is a descriptor of that number.
func open(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

// The last user of a descriptor closes it, and who only learns that it is closed does not: by
// then it may be another's.
func TestLastUserClosesTheDescriptor(t *testing.T) {
	c, _ := pair(t, "127.0.0.1:0")
	other, _ := pair(t, "127.0.0.1:0")
	for range 2 {
		if p, err := c.enter(nil); p != nil || err != nil {
			t.Fatal(p, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if c.leave(); !open(c.fd) {
		t.Fatal("it is closed while somebody uses it")
	}
	if c.leave(); open(c.fd) {
		t.Fatal("it is open, though nobody uses it")
	}
	if err := unix.Dup3(other.fd, c.fd, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if _, err := c.enter(nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("enter = %v after Close, want net.ErrClosed", err)
	}
	if _, err := c.meet(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("meet = %v after Close, want net.ErrClosed", err)
	}
	if err := c.SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("SetDeadline = %v after Close, want net.ErrClosed", err)
	}
	if err := c.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Close = %v the second time, want net.ErrClosed", err)
	}
	if !open(c.fd) {
		t.Fatal("it is closed, though another has it")
	}
	_ = unix.Close(c.fd)
}

// Who comes while a connection is parted with waits for which descriptor it has then.
func TestWhoComesWhileItIsPartedWithWaits(t *testing.T) {
	c, _ := pair(t, "127.0.0.1:0")
	p, err := c.meet()
	if err != nil || !c.state.now().has(met) {
		t.Fatal(err, c.state.now())
	}
	c.mu.Lock()
	c.known.Store(nil) // as Part does
	in := make(chan error, 1)
	go func() { _, err := c.enter(nil); in <- err }()
	for c.state.now().users() == 0 {
		time.Sleep(time.Millisecond)
	}
	select {
	case early := <-in:
		c.mu.Unlock()
		t.Fatalf("somebody uses a descriptor that is being changed: %v", early)
	case <-time.After(20 * time.Millisecond):
	}
	c.known.Store(p)
	c.mu.Unlock()
	if err := <-in; err != nil || c.state.now().users() != 0 {
		t.Errorf("enter = %v, %d users of what the poller knows", err, c.state.now().users())
	}
	if err := Part(c); err != nil || c.state.now() != 0 {
		t.Errorf("Part = %v, state %x: whoever comes now needs no lock", err, c.state.now())
	}
}
