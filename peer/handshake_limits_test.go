package peer_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"shardway/peer"
)

// fromNets is a listener whose connections are created by the test, each with an address of its
// choice.
type fromNets struct {
	conns chan net.Conn
	done  chan struct{}
}

func newFromNets() *fromNets {
	return &fromNets{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *fromNets) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *fromNets) Close() error   { close(l.done); return nil }
func (l *fromNets) Addr() net.Addr { return &net.TCPAddr{} }

// placed is a connection with a given remote address.
type placed struct {
	net.Conn
	addr string
}

func (p placed) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(p.addr))
}

// knock connects from an address and sends nothing.
func (l *fromNets) knock(t *testing.T, addr string) net.Conn {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { _ = here.Close() })
	l.conns <- placed{there, addr}
	synctest.Wait()
	return here
}

// open reports whether the port has left a connection open.
func open(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now())
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, io.EOF)
}

// Handshakes are limited by source address. Once, a burst of requests caused 1,000 handshakes at the
// same time, and unknown peers can cause as many. Beyond 256, the oldest was closed regardless of its
// source. Heartbeat and Raft streams that were being dialed again were closed, too, and leases
// expired.
func TestHandshakesAreLimitedByAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFromNets()
		p := peer.New(peer.Options{
			Node: "b", Cluster: in("c1"), MaxHandshakes: 8, MaxHandshakesPerSource: 4, HandshakeTimeout: time.Hour,
			IsNodeAddr: func(a netip.Addr) bool {
				return a == netip.MustParseAddr("10.0.0.1") || a == netip.MustParseAddr("10.0.0.2")
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Serve(ctx, l) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		beat := l.knock(t, "10.0.0.1:1") // a slow node
		friend := l.knock(t, "192.0.2.1:1")
		for range 20 {
			l.knock(t, "10.0.0.2:1")     // another node, in a burst
			l.knock(t, "198.51.100.1:1") // an unknown peer
			l.knock(t, "[2001:db8::1]:1")
			l.knock(t, "[2001:db8::2]:1") // the same peer, from another address of its network
		}
		if !open(beat) {
			t.Error("a node's connection was closed to make room for others'")
		}
		if !open(friend) {
			t.Error("the only connection from an address was closed to make room for one of many")
		}
		for host := range 256 {
			l.knock(t, netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, 113, byte(host)}), 1).String())
		}
		if !open(beat) {
			t.Error("a node's connection was closed to make room for many strangers")
		}
		// 1 and 4 of nodes, 8 of unknown peers.
		if s := p.Stats(); s.Evicted != 1+1+80+256-(1+4+8) {
			t.Errorf("%d were closed, want all but 13", s.Evicted)
		}
	})
}

// Once, an unknown peer that shared an address with a node and connected continuously displaced each
// handshake of the node before it could end, because the oldest was always closed. The oldest
// handshakes now have a minimum time before another one displaces them.
func TestBurstOfOneAddressEndsInPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFromNets()
		p := peer.New(peer.Options{
			Node: "b", Cluster: in("c1"), MaxHandshakes: 8, MaxHandshakesPerSource: 4, HandshakeTimeout: time.Hour,
			IsNodeAddr: func(a netip.Addr) bool { return a == netip.MustParseAddr("10.0.0.1") },
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Serve(ctx, l) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		for _, addr := range []string{"10.0.0.1:1", "192.0.2.1:1"} { // a node's address, and an unknown one
			var all []net.Conn
			for range 20 {
				all = append(all, l.knock(t, addr))
			}
			for i, c := range all {
				if open(c) != (i < 4) {
					t.Errorf("%s: handshake %d of 20 is open: %v, want the first 4", addr, i, i >= 4)
				}
			}
			time.Sleep(250 * time.Millisecond)
			late := l.knock(t, addr)
			if open(all[0]) || !open(all[1]) || !open(late) {
				t.Errorf("%s: a slow handshake keeps its place for ever", addr)
			}
		}
		// Among unknown peers, a source with fewer handshakes displaces those of a source with more.
		for range 4 {
			l.knock(t, "198.51.100.1:1")
		}
		if other := l.knock(t, "203.0.113.1:1"); !open(other) {
			t.Error("another address is not admitted during a burst")
		}
	})
}

// An IPv6 host has a whole network of addresses. Its handshakes are limited by network. Otherwise, it
// would have a separate limit for each address.
func TestHandshakesFromOneNetworkAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFromNets()
		p := peer.New(peer.Options{Node: "b", Cluster: in("c1"), MaxHandshakes: 100, MaxHandshakesPerSource: 4, HandshakeTimeout: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Serve(ctx, l) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		for _, host := range []string{"1", "2", "3:4", "5:6:7", "8", "9"} {
			l.knock(t, "[2001:db8:0:1::"+host+"]:1")
		}
		l.knock(t, "[2001:db8:0:2::1]:1") // another network
		if s := p.Stats(); s.Evicted != 2 {
			t.Errorf("%d were closed, want all but 4 of the first network", s.Evicted)
		}
	})
}

// The limits also apply to connections without a known address, as on a simulated network.
func TestHandshakesFromOneAddressAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bad := hostile(t, peer.Options{MaxHandshakesPerSource: 4})
		for range 5 {
			knock(t, bad)
		}
		synctest.Wait()
		if s := p.Stats(); s.Evicted != 1 {
			t.Errorf("%d were closed, want the oldest", s.Evicted)
		}
	})
}

// A host counts as one source, regardless of its addresses and ports. For IPv6, the source is its /64.
// A node in the same network is counted separately.
func TestAnOwnerHasOneOrigin(t *testing.T) {
	node := netip.MustParseAddr("2001:db8::5")
	p := peer.New(peer.Options{Node: "a", Cluster: in("c1"), IsNodeAddr: func(a netip.Addr) bool { return a == node }})
	for _, tc := range []struct {
		a, b string
		one  bool
	}{
		{"10.0.0.1:1000", "10.0.0.1:1001", true},
		{"10.0.0.1:1000", "[::ffff:10.0.0.1]:1000", true},
		{"10.0.0.1:1000", "10.0.0.2:1000", false},
		{"[2001:db8::1]:1000", "[2001:db8::ffff:1]:1001", true},
		{"[2001:db8::1]:1000", "[2001:db8:0:1::1]:1000", false},
		{"[2001:db8::5]:1000", "[2001:db8::5]:1001", true},
		{"[2001:db8::5]:1000", "[2001:db8::1]:1000", false},
	} {
		a, b := p.Origin(placed{addr: tc.a}.RemoteAddr()), p.Origin(placed{addr: tc.b}.RemoteAddr())
		if (a == b) != tc.one {
			t.Errorf("the origins of %s and %s are %q and %q, want one: %v", tc.a, tc.b, a, b, tc.one)
		}
	}
	if a := p.Origin(&net.UnixAddr{Name: "far"}); a != "far" {
		t.Errorf("the origin of an address that is no IP address is %q, want its text", a)
	}
}
