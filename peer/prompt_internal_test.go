package peer

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// deafReader is a connection whose poller says nothing: a read finds what is there
// when it begins, or ends by its deadline.
type deafReader struct {
	mu    sync.Mutex
	data  []byte
	until time.Time
	moved chan struct{} // latch: the deadline was set anew
	reads int
}

func (r *deafReader) come(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.data = append(r.data, s...)
}

func (r *deafReader) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	if n := copy(b, r.data); n > 0 {
		r.data = r.data[n:]
		return n, nil
	}
	for r.until.IsZero() || time.Now().Before(r.until) {
		wait, moved := time.Hour, r.moved
		if !r.until.IsZero() {
			wait = time.Until(r.until)
		}
		r.mu.Unlock()
		select {
		case <-time.After(wait):
		case <-moved:
		}
		r.mu.Lock()
	}
	return 0, os.ErrDeadlineExceeded
}

func (r *deafReader) SetReadDeadline(t time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until = t
	close(r.moved)
	r.moved = make(chan struct{})
	return nil
}

// TestReadsDoNotWaitForThePoller has bytes come of which the poller says nothing:
// with 3 000 clients at one node, what a heartbeat's answer waits for is half a
// second long, and every lease ends meanwhile.
func TestReadsDoNotWaitForThePoller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &deafReader{moved: make(chan struct{})}
		c := &prompt{in: r}
		got := make(chan string)
		go func() {
			b := make([]byte, 16)
			for {
				n, err := c.Read(b)
				if err != nil {
					close(got)
					return
				}
				got <- string(b[:n])
			}
		}()
		for i, want := range []time.Duration{lookEvery, lookOften, lookOften} {
			time.Sleep(time.Second)
			came := time.Now()
			r.come("beat")
			if s := <-got; s != "beat" {
				t.Fatalf("read %q", s)
			}
			if late := time.Since(came); late > want {
				t.Errorf("message %d was read after %v, want at most %v", i+1, late, want)
			}
		}
		if err := c.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
			t.Fatal(err)
		}
		if s, more := <-got; more {
			t.Errorf("read %q after the deadline", s)
		}
	})
}

// TestDeadlinesHoldForPromptReads has a read wait for a deadline that is further
// away than a look, and a second one for one that is nearer.
func TestDeadlinesHoldForPromptReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &prompt{in: &deafReader{moved: make(chan struct{})}}
		for _, d := range []time.Duration{lookEvery / 5, lookEvery, 7*lookEvery + 1} {
			begun := time.Now()
			if err := c.SetReadDeadline(begun.Add(d)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read ended with %v", err)
			}
			if took := time.Since(begun); took != d {
				t.Errorf("a read with a deadline in %v took %v", d, took)
			}
		}
	})
}

// TestPatientReadsDoNotLook counts the reads of a stream that carries requests:
// 10 000 that wait must not look about twenty times a second.
func TestPatientReadsDoNotLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &deafReader{moved: make(chan struct{})}
		c := &prompt{in: r}
		settle(c, Forward)
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read ended with %v", err)
		}
		if r.reads != 1 {
			t.Errorf("it read %d times, want once", r.reads)
		}
	})
}

// TestWhatALeaseHangsOnIsReadPromptly opens a stream of each kind over loopback and
// looks at both ends of it: Raft, heartbeats and control are read promptly, requests
// in their turn.
func TestWhatALeaseHangsOnIsReadPromptly(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := New(Options{
		Node: "a", Disk: "d", Cluster: func() string { return "c" },
		Lookup: func(string) (string, bool) { return ln.Addr().String(), true },
	})
	accepted := make(chan *Conn)
	for k := Raft; k.known(); k++ {
		p.Handle(k, func(_ context.Context, c *Conn) { accepted <- c })
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- p.Serve(ctx, ln) }()
	for k := Raft; k.known(); k++ {
		dialled, err := p.DialServer(t.Context(), "a", "d", k)
		if err != nil {
			t.Fatal(err)
		}
		for end, c := range map[string]*Conn{"dialled": dialled, "accepted": <-accepted} {
			w, is := c.Conn.(*prompt)
			if is = is && !w.patient.Load(); is != (k != Forward) {
				t.Errorf("%s end of a %s stream: read promptly: %v", end, k, is)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
