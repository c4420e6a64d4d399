package forwarded

import (
	"net"
	"net/netip"
	"testing"
)

// zonedConn is a connection that comes from an address with a zone.
type zonedConn struct {
	net.Conn
	from netip.AddrPort
}

func (c zonedConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.from) }

// zonedPeer is one that says so without making anything.
type zonedPeer struct{ zonedConn }

func (c zonedPeer) PeerAddr() netip.AddrPort { return c.from }

// The zone of a client's address is this machine's word for a link: no part of what apps and
// keys know a client by, and no reason not to trust a proxy.
func TestOriginHasNoZone(t *testing.T) {
	conn := zonedConn{from: netip.MustParseAddrPort("[fe80::1%eth0]:9")}
	for _, c := range []net.Conn{conn, zonedPeer{conn}} {
		var o Client
		if o.Set(c, []netip.Prefix{netip.MustParsePrefix("fe80::/10")}); o.Text != "fe80::1" || !o.Trusted {
			t.Errorf("%T: %s, trusted %v, want fe80::1, which is", c, o.Text, o.Trusted)
		}
	}
}
