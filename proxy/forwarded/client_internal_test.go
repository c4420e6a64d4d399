package forwarded

import (
	"net"
	"net/netip"
	"testing"
)

// zonedConn is a connection from an address with a zone.
type zonedConn struct {
	net.Conn
	from netip.AddrPort
}

func (c zonedConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.from) }

// zonedPeer is a zonedConn with PeerAddr.
type zonedPeer struct{ zonedConn }

func (c zonedPeer) PeerAddr() netip.AddrPort { return c.from }

// The zone of an address is local to this machine. It is not part of the address that apps and keys
// use, and a trusted proxy is trusted with any zone.
func TestClientAddressHasNoZone(t *testing.T) {
	conn := zonedConn{from: netip.MustParseAddrPort("[fe80::1%eth0]:9")}
	for _, c := range []net.Conn{conn, zonedPeer{conn}} {
		var client Client
		if client.Set(c, []netip.Prefix{netip.MustParsePrefix("fe80::/10")}); client.Text != "fe80::1" || !client.Trusted {
			t.Errorf("%T: %s, trusted %v, want fe80::1, which is", c, client.Text, client.Trusted)
		}
	}
}
