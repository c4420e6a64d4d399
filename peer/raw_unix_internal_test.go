//go:build unix

package peer

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
)

// watched is the raw socket of a net.Conn. It counts reads and writes.
type watched struct {
	syscall.RawConn
	reads, writes atomic.Int64
}

// Read implements syscall.RawConn.
func (w *watched) Read(f func(fd uintptr) bool) error {
	w.reads.Add(1)
	return w.RawConn.Read(f)
}

// Write implements syscall.RawConn.
func (w *watched) Write(f func(fd uintptr) bool) error {
	w.writes.Add(1)
	return w.RawConn.Write(f)
}

// Streams with many requests, and heartbeat streams, bypass package net, whose calls enter the
// scheduler. The first such call after a pause wakes the monitor thread of the runtime, and on a busy
// machine each of them may deschedule the caller.
func TestStreamsBypassPackageNet(t *testing.T) {
	for k := Raft; int(k) < kinds; k++ {
		if !k.known() || k == Forward || k == WebSocketSession-1 {
			continue // a stream with one request is read by its own goroutine
		}
		for _, diverted := range []bool{false, true} {
			near, far := prompts(t)
			var all [2]*watched
			for i, p := range []*lowLatencyConn{near, far} {
				rc, is := p.socket.(*rawConn)
				if !is {
					t.Fatalf("a connection is read as %T", p.socket)
				}
				all[i] = &watched{RawConn: rc.conn}
				rc.stream.Open(all[i]) // no stream is in use
				if c := applyKind(p, k); c != p {
					t.Fatalf("a stream of kind %s is %T, want the connection itself", k, c)
				}
			}
			var w io.Writer = near
			if diverted {
				w = near.Divert(func([]byte) {})
			}
			said := []byte("what is said")
			if n, err := w.Write(said); n != len(said) || err != nil {
				t.Fatal(n, err)
			}
			got := make([]byte, len(said))
			if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, said) {
				t.Fatalf("%s: read %q, %v", k, got, err)
			}
			if reads, writes := all[1].reads.Load(), all[0].writes.Load(); reads == 0 || writes == 0 {
				t.Errorf("%s, diverted %v: %d reads and %d writes went past package net, want all", k, diverted, reads, writes)
			}
		}
	}
}

// Both ends of a session between nodes, the dialer and the listener, bypass package net.
func TestBothEndsOfASessionBypassPackageNet(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := New(Options{
		Node: "a", Cluster: func() string { return "c1" },
		Lookup: func(string) (string, bool) { return ln.Addr().String(), true },
	})
	accepted := make(chan *Conn, 1)
	p.Handle(RequestSession, func(_ context.Context, c *Conn) { accepted <- c })
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx, ln) }()
	near, err := p.Dial(t.Context(), "a", RequestSession)
	if err != nil {
		t.Fatal(err)
	}
	far := <-accepted
	for _, c := range []*Conn{near, far} {
		under, is := c.NetConn().(*lowLatencyConn)
		if !is {
			t.Fatalf("a trunk is a %T", c.NetConn())
		}
		if _, is = under.socket.(*rawConn); !is {
			t.Errorf("a trunk is read as %T", under.socket)
		}
		_ = c.Close()
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
