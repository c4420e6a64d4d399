package admin

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
)

// arriving is a listener at which connections of these addresses arrive.
type arriving struct {
	net.Listener

	from []string
}

func (a *arriving) Accept() (net.Conn, error) {
	if len(a.from) == 0 {
		return nil, io.EOF
	}
	c := &arrived{from: a.from[0]}
	a.from = a.from[1:]
	return c, nil
}

type arrived struct {
	net.Conn

	from   string
	closed bool
}

func (a *arrived) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(a.from))
}

func (a *arrived) Close() error {
	if a.closed {
		return net.ErrClosed
	}
	a.closed = true
	return nil
}

// Strangers kept as many connections as they liked, and with them the descriptors that clients
// need: of one address the oldest go, and of all those of whoever has most. Who has few stays.
func TestConnectionsAreBounded(t *testing.T) {
	a := &arriving{}
	ln := &limitedListener{Listener: a}
	take := func(from string, many int) (all []net.Conn) {
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
	operator := take("192.0.2.1:5", 2)
	for i := range byte(8) { // of which each stays within its own
		take(net.JoinHostPort(netip.AddrFrom4([4]byte{198, 51, 100, i}).String(), "4711"), maxConnsPerSource+10)
	}
	if ln.count != MaxConns {
		t.Errorf("%d connections, want %d", ln.count, MaxConns)
	}
	for source, l := range ln.bySource {
		if l.Len() > maxConnsPerSource {
			t.Errorf("%d of %s, want %d at most", l.Len(), source, maxConnsPerSource)
		}
	}
	last := take("192.0.2.1:6", 1)
	for _, c := range append(operator, last...) {
		if err := c.Close(); err != nil {
			t.Errorf("one of few was closed for others: %v", err)
		}
	}
	if again := operator[0].Close(); !errors.Is(again, net.ErrClosed) || ln.count != MaxConns-3 {
		t.Errorf("%d places are taken after three were given back (%v)", ln.count, again)
	}
}
