package peer_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/simnet"
	"shardway/peer"
)

// starved is a listener whose calls of Accept sometimes fail for lack of file descriptors.
type starved struct {
	net.Listener
	fails atomic.Int32
}

func (s *starved) Accept() (net.Conn, error) {
	if s.fails.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
	}
	return s.Listener.Accept()
}

func TestAcceptOutlivesLackOfDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(simnet.Config{})
		defer n.Close()
		h := n.Host("a")
		ln, err := h.Listen(":1")
		if err != nil {
			t.Fatal(err)
		}
		s := &starved{Listener: ln}
		s.fails.Store(10)
		p := peer.New(peer.Options{
			Node: "a", Cluster: in("c1"), Dial: h.Dial, HandshakeTimeout: time.Minute,
			Lookup: func(string) (string, bool) { return h.Addr(1), true },
		})
		p.Handle(peer.Forward, echo)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Serve(ctx, s) }()
		start := time.Now()
		_ = wantStream(t, p, "a", peer.Forward).Close()
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("took %v, want pauses of at most a second", d)
		}
		s.fails.Store(1 << 30)
		cancel() // also ends a pause after such an error
		if err := <-done; err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
}

func TestServeReportsABrokenListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(simnet.Config{})
		defer n.Close()
		h := n.Host("a")
		ln, err := h.Listen(":1")
		if err != nil {
			t.Fatal(err)
		}
		p := peer.New(peer.Options{Node: "a"})
		done := make(chan error, 1)
		go func() { done <- p.Serve(t.Context(), ln) }()
		synctest.Wait()
		h.Crash()
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve = %v, want why the listener ended", err)
		}
	})
}

// A panic in the handler of one stream ends only that stream.
func TestPanicEndsOneStream(t *testing.T) {
	b := &book{}
	p := peer.New(peer.Options{Node: "b", Cluster: in("c1"), Lookup: b.lookup})
	p.Handle(peer.Control, func(context.Context, *peer.Conn) { panic("a bug") })
	p.Handle(peer.Forward, echo)
	serve(t, b, "b", p)
	for range 3 {
		c, err := p.Dial(t.Context(), "b", peer.Control)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("the stream goes on")
		}
		_ = c.Close()
	}
	c, err := p.Dial(t.Context(), "b", peer.Forward)
	if err != nil {
		t.Fatal(err)
	}
	wantEcho(t, c, "alive")
	_ = c.Close()
}
