package proxy

import (
	"crypto/tls"
	"net"
	"net/netip"
)

// origin is where a client connection comes from.
type origin struct {
	addr    netip.Addr // invalid for what has none, as a Unix socket
	text    string     // addr, or "unknown" (RFC 7239 section 6.2)
	proto   string
	trusted bool   // one of TrustedProxies
	local   []byte // the address it came to, as a Host
}

func (o *origin) set(conn net.Conn, trusted []netip.Prefix) {
	o.text, o.proto = "unknown", "http"
	if _, ok := conn.(*tls.Conn); ok {
		o.proto = "https"
	}
	if a, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil {
		o.addr = a.Addr().Unmap().WithZone("")
		o.text = o.addr.String()
	}
	o.local = []byte("localhost")
	if a, err := netip.ParseAddrPort(conn.LocalAddr().String()); err == nil {
		o.local = []byte(netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port()).String())
	}
	o.trusted = isTrusted(o.addr, trusted)
}

func isTrusted(a netip.Addr, trusted []netip.Prefix) bool {
	for _, p := range trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
