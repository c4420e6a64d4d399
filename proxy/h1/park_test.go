package h1_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"shardway/proxy/h1"
)

// watcher is a poller whose events come from the test.
type watcher struct {
	ready func()
	left  int
	err   error
}

func (w *watcher) Watch(_ net.Conn, ready func()) (leave func(), err error) {
	w.ready = ready
	return func() { w.left++ }, w.err
}

// parkable returns an h1.Conn on one end of a connection, and the other end.
func parkable(t *testing.T) (*h1.Conn, net.Conn) {
	t.Helper()
	near, far := tcpPair(t)
	return h1.NewConn(near, h1.Options{}), far
}

// A parked reader is woken once, even if there are several reasons, and is no longer watched after
// that.
func TestParkedReaderIsWokenOnce(t *testing.T) {
	for how, f := range map[string]func(c *h1.Conn, w *watcher){
		"something has come": func(_ *h1.Conn, w *watcher) { w.ready() },
		"closed":             func(c *h1.Conn, _ *watcher) { _ = c.Close() },
		"cut":                func(c *h1.Conn, _ *watcher) { _ = c.Abort() },
		"paused":             func(c *h1.Conn, _ *watcher) { c.PauseRead() },
		"stopped":            func(c *h1.Conn, _ *watcher) { c.StopRead() },
	} {
		t.Run(how, func(t *testing.T) {
			c, _ := parkable(t)
			w, woken := &watcher{}, 0
			if err := c.Park(w, func() { woken++ }); err != nil || woken != 0 || !c.CanPark() {
				t.Fatalf("Park = %v, woken %d times", err, woken)
			}
			if f(c, w); woken != 1 {
				t.Errorf("woken %d times at once, want once", woken)
			}
			w.ready() // late event
			_ = c.Close()
			if woken != 1 || w.left != 1 {
				t.Errorf("woken %d times, and left %d times, want once each", woken, w.left)
			}
		})
	}
}

// A request to wake the reader is not missed if it comes before the park: a connection on which a read
// would not block is not parked.
func TestWhatWouldNotWaitIsNotParked(t *testing.T) {
	for how, f := range map[string]func(c *h1.Conn, far net.Conn){
		"closed":  func(c *h1.Conn, _ net.Conn) { _ = c.Close() },
		"paused":  func(c *h1.Conn, _ net.Conn) { c.PauseRead() },
		"stopped": func(c *h1.Conn, _ net.Conn) { c.StopRead() },
		"bytes that were read": func(c *h1.Conn, far net.Conn) {
			_, _ = io.WriteString(far, "xy")
			if p, err := c.PeekFor(time.Minute); err != nil || len(p) == 0 {
				t.Errorf("PeekFor = %q, %v", p, err)
			}
		},
	} {
		t.Run(how, func(t *testing.T) {
			c, far := parkable(t)
			f(c, far)
			if err := c.Park(&watcher{}, func() { t.Error("woken") }); !errors.Is(err, h1.ErrReady) {
				t.Errorf("Park = %v, want %v", err, h1.ErrReady)
			}
		})
	}
	c, _ := parkable(t)
	none := errors.New("none")
	if err := c.Park(&watcher{err: none}, func() { t.Error("woken") }); !errors.Is(err, none) {
		t.Errorf("Park = %v, want %v", err, none)
	}
	_ = c.Close()
	pipe, _ := net.Pipe()
	if h1.NewConn(pipe, h1.Options{}).CanPark() {
		t.Error("what has no socket parks")
	}
}

// PeekFor waits for up to its timeout. Data that arrives later is available to the next call.
func TestPeekForEnds(t *testing.T) {
	c, far := parkable(t)
	if p, err := c.PeekFor(time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("PeekFor = %q, %v, want %v", p, err, os.ErrDeadlineExceeded)
	}
	_, _ = io.WriteString(far, "x")
	if p, err := c.PeekFor(0); string(p) != "x" || err != nil {
		t.Errorf("PeekFor = %q, %v", p, err)
	}
}
