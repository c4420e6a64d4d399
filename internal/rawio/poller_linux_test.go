package rawio

import (
	"errors"
	"net"
	"os"
	"slices"
	"testing"
)

// ends returns the two ends of a TCP connection.
func ends(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	dialed, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dialed.Close() })
	came, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = came.Close() })
	near, ok := came.(*net.TCPConn)
	far, too := dialed.(*net.TCPConn)
	if !ok || !too {
		t.Fatalf("%T and %T", came, dialed)
	}
	return near, far
}

func newPoller(t *testing.T) *Poller {
	t.Helper()
	l, err := NewPoller()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// wants waits until events for all ids and no others have been returned, in any order.
func wants(t *testing.T, l *Poller, ids ...uint64) {
	t.Helper()
	var events []Event
	for len(events) < len(ids) {
		var err error
		if events, err = l.Wait(events); err != nil {
			t.Fatal(err)
		}
	}
	var ready []uint64
	for _, e := range events {
		ready = append(ready, e.ID)
	}
	slices.Sort(ready)
	if !slices.Equal(ready, ids) {
		t.Errorf("reported %d, want %d", ready, ids)
	}
}

// A Poller reports data, an end of stream and a reset, once for each connection, also if
// they arrived before Add.
func TestPollerReportsEveryConnectionOnce(t *testing.T) {
	l := newPoller(t)
	const base = 1<<63 + 1<<32 // both halves of a number count
	acts := []func(c *net.TCPConn) error{
		func(c *net.TCPConn) error { _, err := c.Write([]byte("x")); return err },
		(*net.TCPConn).CloseWrite,
		(*net.TCPConn).Close,
		func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) },
	}
	var ids []uint64
	var all []*net.TCPConn
	for early := range 2 {
		for i, act := range acts {
			id := base + uint64(10*early+i)
			near, far := ends(t)
			if early == 1 {
				if err := act(far); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Add(near, id); err != nil {
				t.Fatal(err)
			}
			if early == 0 {
				if err := act(far); err != nil {
					t.Fatal(err)
				}
			}
			ids, all = append(ids, id), append(all, near)
		}
	}
	wants(t, l, ids...)
	near, far := ends(t)
	if err := l.Add(near, 7); err != nil {
		t.Fatal(err)
	}
	if _, err := far.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	wants(t, l, 7) // no other id again, although their data has not been read
	for _, c := range all {
		if err := l.Remove(c); err != nil {
			t.Error(err)
		}
	}
}

// A removed connection is not reported and can be added again.
func TestPollerDoesNotReportRemovedConnection(t *testing.T) {
	l := newPoller(t)
	one, oneFar := ends(t)
	other, otherFar := ends(t)
	for id, c := range map[uint64]*net.TCPConn{1: one, 2: other} {
		if err := l.Add(c, id); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Remove(one); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*net.TCPConn{oneFar, otherFar} {
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	wants(t, l, 2)
	if err := l.Add(one, 3); err != nil {
		t.Fatal(err)
	}
	wants(t, l, 3)
}

// More connections are ready than one system call returns.
func TestPollerReportsMoreThanOneBatch(t *testing.T) {
	l := newPoller(t)
	var ids []uint64
	for id := range uint64(300) {
		near, far := ends(t)
		if err := l.Add(near, id); err != nil {
			t.Fatal(err)
		}
		if _, err := far.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	wants(t, l, ids...)
}

// Close ends a running Wait, and a closed Poller accepts no connection.
func TestPollerCloseEndsWait(t *testing.T) {
	l := newPoller(t)
	near, _ := ends(t)
	if err := l.Add(near, 1); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _, err := l.Wait(nil); ended <- err }()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("Wait returned no error")
	}
	if l.Add(near, 2) == nil || l.Remove(near) == nil {
		t.Error("a closed Poller accepts connections")
	}
	_, err := near.Write([]byte("x"))
	if err != nil {
		t.Errorf("the socket: %v", err)
	}
	pipe, _ := net.Pipe()
	if err := newPoller(t).Add(pipe, 1); !errors.Is(err, os.ErrInvalid) {
		t.Errorf("Add of a connection without a socket = %v, want %v", err, os.ErrInvalid)
	}
}

// AddEdgeTriggered reports each arrival of data, and an end of stream as such.
func TestPollerKeepReportsEachArrival(t *testing.T) {
	l := newPoller(t)
	near, far := ends(t)
	if err := l.AddEdgeTriggered(near, 7); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 8)
	for range 3 {
		if _, err := far.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		events, err := l.Wait(nil)
		if want := []Event{{ID: 7}}; err != nil || !slices.Equal(events, want) {
			t.Fatalf("Wait = %v, %v, want %v", events, err, want)
		}
		if n, err := near.Read(p); n != 1 || err != nil {
			t.Fatalf("Read = %d, %v", n, err)
		}
	}
	if err := far.Close(); err != nil {
		t.Fatal(err)
	}
	events, err := l.Wait(nil)
	if want := []Event{{ID: 7, End: true}}; err != nil || !slices.Equal(events, want) {
		t.Fatalf("Wait = %v, %v, want %v", events, err, want)
	}
}

// Each Wake ends the current wait or the next one.
func TestPollerWakeEndsWait(t *testing.T) {
	l := newPoller(t)
	for range 3 {
		go l.Wake()
		if events, err := l.Wait(nil); err != nil || len(events) != 0 {
			t.Fatalf("Wait = %v, %v, want nothing", events, err)
		}
	}
}

// A Poller that always has events yields to other goroutines and still reports every event.
func TestPollerYieldsAndReportsEverything(t *testing.T) {
	l := newPoller(t)
	near, far := ends(t)
	if err := l.AddEdgeTriggered(near, 1); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 8)
	for range 10 * maxBeforeYield {
		if _, err := far.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		for n := 0; n == 0; {
			events, err := l.Wait(nil)
			if err != nil {
				t.Fatal(err)
			}
			for range events {
				n, _ = near.Read(p) // an end shows with the next
			}
		}
	}
}
