package muxpool

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/peer"
	"shardway/peer/mux"
)

// A node may have a few mux sessions to another node, because a replaced session stays open while its streams continue. Other nodes have
// their own limit, and the sessions of one address are limited together.
func TestSessionsPerNodeAreLimited(t *testing.T) {
	l := NewForRequests(peer.New(peer.Options{Node: "a", Cluster: func() string { return "c" }}))
	b, c := peerOrigin{"b", "10.0.0.1"}, peerOrigin{"c", "10.0.0.1"}
	first := l.acquireSession(b)
	for i := range maxSessionsPerNode + 1 {
		if got := l.acquireSession(b); (got == first) != (i < maxSessionsPerNode-1) || (got == nil) != (i >= maxSessionsPerNode-1) {
			t.Errorf("trunk %d counts in %v", i+2, got)
		}
	}
	if other := l.acquireSession(c); other == nil || other == first {
		t.Error("another node has no trunk of its own")
	}
	in := maxSessionsPerNode + 1
	for i := range 2 * maxSessionsPerOrigin {
		if got := l.acquireSession(peerOrigin{strconv.Itoa(i), "10.0.0.1"}); (got != nil) != (in < maxSessionsPerOrigin) {
			t.Fatalf("an address with %d trunks is let in: %v", in, got != nil)
		} else if got != nil {
			in++
		}
	}
	places := 1
	for ; in < maxSessions; places++ {
		for i := range maxSessionsPerOrigin {
			if l.acquireSession(peerOrigin{strconv.Itoa(i), strconv.Itoa(places)}) == nil {
				t.Fatalf("address %d has no trunk %d", places, i)
			}
			in++
		}
	}
	if l.acquireSession(peerOrigin{"d", "10.0.0.2"}) != nil {
		t.Errorf("%d trunks are not enough", in)
	}
	for range maxSessionsPerNode {
		l.releaseSession(b)
	}
	l.releaseSession(c)
	if got := l.acquireSession(b); got == nil {
		t.Error("it has none once its own have ended")
	}
	l.releaseSession(b)
	for i := range maxSessionsPerOrigin - maxSessionsPerNode - 1 {
		l.releaseSession(peerOrigin{strconv.Itoa(i), "10.0.0.1"})
	}
	if n, p := len(l.accepted.nodes), len(l.accepted.origins); n != maxSessions-maxSessionsPerOrigin || p != places-1 {
		t.Errorf("%d nodes of %d addresses are remembered", n, p)
	}
}

// The streams of peers with invented names from one address count together.
func TestStreamsPerAddressAreLimited(t *testing.T) {
	l := NewForRequests(peer.New(peer.Options{Node: "a", Cluster: func() string { return "c" }}))
	opened := 0
	for i := range 2 * maxStreamsPerOrigin / mux.MaxStreams {
		near, _ := net.Pipe()
		tr := mux.NewClient(near, l.acquireSession(peerOrigin{strconv.Itoa(i), "10.0.0.1"}))
		for {
			if _, err := tr.OpenStream(); err != nil {
				break
			}
			opened++
		}
	}
	if opened != maxStreamsPerOrigin {
		t.Errorf("an address has %d lanes, want %d", opened, maxStreamsPerOrigin)
	}
}

// placed is a connection from a given address.
type placed struct {
	net.Conn
	addr netip.AddrPort
}

func (p placed) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(p.addr) }

// The owner of an IPv6 network has any number of addresses: it gets the sessions of a single address, and takes no place of another node.
func TestSessionsPerIPv6PrefixAreLimited(t *testing.T) {
	hosting(t, func(h *host) {
		enter := func(from netip.Addr, name string) {
			o := peer.Options{Node: name, Cluster: func() string { return "c" }, Lookup: func(string) (string, bool) { return "far", true }}
			o.Dial = func(context.Context, string) (net.Conn, error) {
				near, end := net.Pipe()
				h.far.ends <- placed{end, netip.AddrPortFrom(from, 4000)}
				return near, nil
			}
			if c, err := peer.New(o).Dial(h.ctx, "b", peer.RequestSession); err == nil { // otherwise it is closed right after the handshake
				h.t.Cleanup(func() { _ = c.Close() })
			}
			synctest.Wait()
		}
		addr := netip.MustParseAddr("2001:db8::1")
		for i := range maxSessionsPerOrigin + 16 {
			enter(addr, strconv.Itoa(i))
			addr = addr.Next()
		}
		if n := h.requests.Sessions(); n != maxSessionsPerOrigin {
			t.Errorf("%d trunks of one owner's addresses are served, want %d", n, maxSessionsPerOrigin)
		}
		if enter(netip.MustParseAddr("2001:db8:0:1::1"), "c"); h.requests.Sessions() != maxSessionsPerOrigin+1 {
			t.Error("another owner has none")
		}
	})
}

// A peer that knows the preface of a cluster without a secret may dial sessions under invented names and send nothing on them. The node
// keeps few of them, and not for long.
func TestSilentUnknownSessionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const names = 64
		ends := make(chan net.Conn)
		p := peer.New(peer.Options{Node: "b", Cluster: func() string { return "c" }})
		pool := NewForRequests(p)
		p.Handle(peer.RequestSession, pool.Handler(zerolog.Nop(), drain))
		ctx, cancel := context.WithCancel(t.Context())
		var served sync.WaitGroup
		served.Go(func() { _ = p.Serve(ctx, &listener{far: &farPort{ends: ends}, ctx: ctx}) })
		known := func() int {
			synctest.Wait()
			pool.accepted.Lock()
			defer pool.accepted.Unlock()
			return pool.accepted.total
		}
		var held []net.Conn
		for i := range names {
			port := dialing(fmt.Sprintf("stranger-%d", i), &farPort{ends: ends})
			for range maxSessionsPerNode {
				c, err := port.Dial(ctx, "b", peer.RequestSession)
				if err != nil {
					if len(held) < maxSessionsPerOrigin {
						t.Fatalf("name %d: %v", i, err)
					}
					continue // it is closed right after the handshake
				}
				held = append(held, c)
			}
		}
		if n := known(); n != maxSessionsPerOrigin {
			t.Errorf("%d trunks of one address are served, want %d", n, maxSessionsPerOrigin)
		}
		time.Sleep(time.Minute)
		if n := known(); n != 0 {
			t.Errorf("%d trunks are served after a minute of silence", n)
		}
		for _, c := range held {
			_ = c.Close()
		}
		cancel()
		served.Wait()
	})
}

// A session that broke while its streams are being processed does not count against the limit.
func TestBrokenSessionDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := make(chan net.Conn)
		p := peer.New(peer.Options{Node: "b", Cluster: func() string { return "c" }})
		pool := NewForRequests(p)
		over := make(chan struct{})
		p.Handle(peer.RequestSession, func(_ context.Context, c *peer.Conn) {
			pool.serve(c, func(l *mux.Stream) { <-over; _ = l.Close() })
		})
		ctx, cancel := context.WithCancel(t.Context())
		var served sync.WaitGroup
		served.Go(func() { _ = p.Serve(ctx, &listener{far: &farPort{ends: ends}, ctx: ctx}) })
		port := dialing("c", &farPort{ends: ends})
		for i := range 2 * maxSessionsPerNode {
			c, err := port.Dial(ctx, "b", peer.RequestSession)
			if err != nil {
				t.Fatal(err)
			}
			tr := mux.NewClient(c, mux.NewBudget(mux.MaxStreams, nil))
			go func() { _ = tr.Run() }()
			l, err := tr.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			_, _ = l.Write([]byte("x"))
			if synctest.Wait(); !l.WouldBlock() {
				t.Fatalf("trunk %d is refused, or its lane", i)
			}
			tr.Fail(net.ErrClosed)
			synctest.Wait()
		}
		if n := pool.streamBudget.InUse(); n != 2*maxSessionsPerNode {
			t.Errorf("%d lanes count, want all that are worked on", n)
		}
		close(over)
		if synctest.Wait(); pool.streamBudget.InUse() != 0 {
			t.Errorf("%d lanes count in the end", pool.streamBudget.InUse())
		}
		cancel()
		served.Wait()
	})
}
