package netpoll_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"shardway/internal/netpoll"
	"shardway/internal/rawio"
)

// connect returns the two ends of a TCP connection.
func connect(t *testing.T) (near, far net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	if far, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close() })
	if near, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = near.Close() })
	return near, far
}

// await fails the test unless a value arrives in time.
func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		t.Fatal(what)
	}
}

func TestWatcherCallsReadyOnce(t *testing.T) {
	var w netpoll.Watcher
	defer w.Close()
	near, far := connect(t)
	ready := make(chan struct{}, 2)
	for range 2 { // a connection that was watched can be watched again
		cancel, err := w.Watch(near, func() { ready <- struct{}{} })
		if err != nil {
			t.Fatal(err)
		}
		if _, err = far.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		await(t, "ready was not called", ready)
		cancel()
	}
	if len(ready) > 0 {
		t.Error("ready was called twice")
	}
}

func TestWatcherDoesNotReportCancelledConn(t *testing.T) {
	var w netpoll.Watcher
	defer w.Close()
	one, oneFar := connect(t)
	other, otherFar := connect(t)
	cancel, err := w.Watch(one, func() { t.Error("the cancelled connection was reported") })
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	ready := make(chan struct{}, 1)
	if _, err = w.Watch(other, func() { ready <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{oneFar, otherFar} {
		if _, err = c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the other connection was not reported", ready)
}

// A failed Watcher reports all its connections, because nothing else would read from them, and
// accepts no more.
func TestFailedWatcherReportsAllConns(t *testing.T) {
	var poller *rawio.Poller
	w := netpoll.Watcher{NewPoller: func() (p *rawio.Poller, err error) {
		poller, err = rawio.NewPoller()
		return poller, err
	}}
	defer w.Close()
	ready := make(chan struct{}, 2)
	for range 2 {
		near, _ := connect(t)
		if _, err := w.Watch(near, func() { ready <- struct{}{} }); err != nil {
			t.Fatal(err)
		}
	}
	if err := poller.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		await(t, "a connection was not reported", ready)
	}
	near, _ := connect(t)
	if _, err := w.Watch(near, func() {}); !errors.Is(err, netpoll.ErrClosed) {
		t.Errorf("Watch = %v, want %v", err, netpoll.ErrClosed)
	}
}

// An attempt that fails for lack of descriptors does not prevent later ones.
func TestWatchSucceedsAfterTemporaryFailure(t *testing.T) {
	temporary := errors.New("no descriptors")
	failures := 1
	w := netpoll.Watcher{NewPoller: func() (*rawio.Poller, error) {
		if failures--; failures >= 0 {
			return nil, temporary
		}
		return rawio.NewPoller()
	}}
	defer w.Close()
	near, _ := connect(t)
	if _, err := w.Watch(near, func() {}); !errors.Is(err, temporary) {
		t.Errorf("Watch = %v, want %v", err, temporary)
	}
	cancel, err := w.Watch(near, func() {})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
}
