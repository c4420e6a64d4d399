package forwarded

import (
	"crypto/tls"
	"net"
	"net/netip"

	"shardway/proxy/h1"
)

// Lines of the Via header, by the version of the request.
const (
	lineVia    = "Via: 1.1 shardway\r\n"
	lineViaOld = "Via: 1.0 shardway\r\n"
)

// Conn has the addresses of a client connection. A *tls.Conn uses https.
type Conn interface {
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
}

// Client is the sender of a client connection.
type Client struct {
	Addr    netip.Addr // invalid if the connection has no IP address, such as a Unix socket
	Text    string     // Addr, or "unknown" (RFC 7239 section 6.2)
	Proto   string     // http or https
	Trusted bool       // Addr belongs to a trusted proxy
	conn    Conn       // for LocalHost
}

// Set describes the sender of conn. trusted contains the networks of the trusted proxies.
func (c *Client) Set(conn Conn, trusted []netip.Prefix) {
	c.Text, c.Proto = "unknown", "http"
	if _, ok := conn.(*tls.Conn); ok {
		c.Proto = "https"
	}
	if a := peerAddr(conn); a.IsValid() {
		c.Addr = a.Addr()
		c.Text = c.Addr.String()
	}
	c.conn = conn
	c.Trusted = IsTrusted(c.Addr, trusted)
}

// peerAddr returns the remote address of a connection.
func peerAddr(conn Conn) netip.AddrPort {
	if c, ok := conn.(interface{ PeerAddr() netip.AddrPort }); ok { // does not allocate
		a := c.PeerAddr()
		return netip.AddrPortFrom(a.Addr().WithZone(""), a.Port())
	}
	return addrPort(conn.RemoteAddr())
}

// addrPort returns a TCP address, or an invalid one for other networks.
func addrPort(addr net.Addr) netip.AddrPort {
	if a, ok := addr.(*net.TCPAddr); ok {
		p := a.AddrPort()
		return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port())
	}
	a, err := netip.ParseAddrPort(addr.String()) // the address type of a wrapper
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// LocalHost returns the local address of the connection in the form of a Host header.
func (c *Client) LocalHost() []byte {
	local := addrPort(c.conn.LocalAddr())
	if !local.IsValid() {
		return []byte("localhost")
	}
	return []byte(local.String())
}

// IsTrusted reports whether an address belongs to one of the networks.
func IsTrusted(a netip.Addr, trusted []netip.Prefix) bool {
	for _, p := range trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// AppendHeaders appends Via, X-Forwarded-* and, with forwarded, Forwarded. It uses e to drop the
// client's own headers, unless the client is a trusted proxy; then it keeps and extends them.
func (c *Client) AppendHeaders(b []byte, req *h1.Request, e *h1.Edit, forwarded bool) []byte {
	if req.Minor() == 0 {
		b = append(b, lineViaOld...)
	} else {
		b = append(b, lineVia...)
	}
	trusted := c.Trusted
	if !trusted {
		e.Drop |= h1.Forwarding
	}
	e.Drop |= h1.FieldSetOf(h1.FieldXForwardedFor)
	b = append(b, "X-Forwarded-For: "...)
	if trusted {
		b = appendForwardedFor(b, req)
	}
	b = append(b, c.Text...)
	b = append(b, "\r\n"...)
	if !trusted || !req.Has(h1.FieldXForwardedHost) {
		if host := req.Host(); len(host) > 0 {
			b = append(b, "X-Forwarded-Host: "...)
			b = append(b, host...)
			b = append(b, "\r\n"...)
		}
	}
	if !trusted || !req.Has(h1.FieldXForwardedProto) {
		b = append(b, "X-Forwarded-Proto: "...)
		b = append(b, c.Proto...)
		b = append(b, "\r\n"...)
	}
	if forwarded {
		b = c.appendForwarded(b, req.Host())
	}
	return b
}

// appendForwarded appends this hop in the form of RFC 7239. Elements from trusted proxies precede
// it, on separate lines.
func (c *Client) appendForwarded(b, host []byte) []byte {
	b = append(b, "Forwarded: for="...)
	if c.Addr.Is6() {
		b = append(b, '"', '[')
		b = append(b, c.Text...)
		b = append(b, ']', '"')
	} else {
		b = append(b, c.Text...)
	}
	if len(host) > 0 { // a validated host needs no escapes
		b = append(b, ";host=\""...)
		b = append(b, host...)
		b = append(b, '"')
	}
	b = append(b, ";proto="...)
	b = append(b, c.Proto...)
	return append(b, "\r\n"...)
}

// appendForwardedFor appends the received X-Forwarded-For fields as one list.
func appendForwardedFor(b []byte, req *h1.Request) []byte {
	const name = "X-Forwarded-For"
	for i := req.Find(name, 0); i >= 0; i = req.Find(name, i+1) {
		if _, v := req.Field(i); len(v) > 0 {
			b = append(b, v...)
			b = append(b, ", "...)
		}
	}
	return b
}
