package proxy

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/netip"
	"slices"
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

// clientIP returns the address of the client that a request is from: of the
// connection, or behind trusted proxies the last one that none of them is.
func (c *client) clientIP() []byte {
	c.scratch = append(c.scratch[:0], c.from.text...)
	if !c.from.trusted {
		return c.scratch
	}
	const name = "X-Forwarded-For"
	var lines [][]byte
	for i := c.req.Find(name, 0); i >= 0; i = c.req.Find(name, i+1) {
		_, v := c.req.Field(i)
		lines = append(lines, v)
	}
	list := bytes.Split(bytes.Join(lines, []byte(",")), []byte(","))
	for _, entry := range slices.Backward(list) {
		a, err := netip.ParseAddr(string(bytes.TrimSpace(entry)))
		if err != nil {
			break // what stands before it cannot be trusted either
		}
		a = a.Unmap().WithZone("")
		c.scratch = a.AppendTo(c.scratch[:0])
		if !isTrusted(a, c.set.TrustedProxies) {
			break
		}
	}
	return c.scratch
}
