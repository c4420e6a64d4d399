package connlimit

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
)

// fakeListener is a listener whose connections come from these addresses.
type fakeListener struct {
	net.Listener

	from []string
}

func (a *fakeListener) Accept() (net.Conn, error) {
	if len(a.from) == 0 {
		return nil, io.EOF
	}
	c := &fakeConn{from: a.from[0]}
	a.from = a.from[1:]
	return c, nil
}

type fakeConn struct {
	net.Conn

	from   string
	closed bool
}

func (a *fakeConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(a.from))
}

func (a *fakeConn) Close() error {
	if a.closed {
		return net.ErrClosed
	}
	a.closed = true
	return nil
}

// TestListenerClosesTheOldestConnections verifies the limit for each source and the total
// limit. A source with few connections must keep all of them.
func TestListenerClosesTheOldestConnections(t *testing.T) {
	a := &fakeListener{}
	ln := &listener{Listener: a}
	accept := func(from string, many int) (all []net.Conn) {
		for range many {
			a.from = append(a.from, from)
			c, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		return all
	}
	operator := accept("192.0.2.1:5", 2)
	for i := range byte(8) { // each source exceeds its own limit
		accept(net.JoinHostPort(netip.AddrFrom4([4]byte{198, 51, 100, i}).String(), "4711"), maxConnsPerSource+10)
	}
	if ln.count != MaxConns {
		t.Errorf("%d connections, want %d", ln.count, MaxConns)
	}
	for source, l := range ln.bySource {
		if l.Len() > maxConnsPerSource {
			t.Errorf("%d connections from %s, want at most %d", l.Len(), source, maxConnsPerSource)
		}
	}
	last := accept("192.0.2.1:6", 1)
	for _, c := range append(operator, last...) {
		if err := c.Close(); err != nil {
			t.Errorf("connection of a source with few connections was closed: %v", err)
		}
	}
	if again := operator[0].Close(); !errors.Is(again, net.ErrClosed) || ln.count != MaxConns-3 {
		t.Errorf("%d connections count after three were closed (%v)", ln.count, again)
	}
}
