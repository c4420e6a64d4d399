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

// Client is where a client connection comes from.
type Client struct {
	Addr    netip.Addr // invalid for what has none, as a Unix socket
	Text    string     // addr, or "unknown" (RFC 7239 section 6.2)
	Proto   string
	Trusted bool     // one of TrustedProxies
	conn    net.Conn // for host
}

func (o *Client) Set(conn net.Conn, trusted []netip.Prefix) {
	o.Text, o.Proto = "unknown", "http"
	if _, ok := conn.(*tls.Conn); ok {
		o.Proto = "https"
	}
	if a := peerAddr(conn); a.IsValid() {
		o.Addr = a.Addr()
		o.Text = o.Addr.String()
	}
	o.conn = conn
	o.Trusted = IsTrusted(o.Addr, trusted)
}

// peerAddr returns where a connection comes from.
func peerAddr(conn net.Conn) netip.AddrPort {
	if c, ok := conn.(interface{ PeerAddr() netip.AddrPort }); ok { // which makes nothing
		a := c.PeerAddr()
		return netip.AddrPortFrom(a.Addr().WithZone(""), a.Port())
	}
	return addrPort(conn.RemoteAddr())
}

// addrPort returns an address of TCP, invalid for any other.
func addrPort(addr net.Addr) netip.AddrPort {
	if a, ok := addr.(*net.TCPAddr); ok {
		p := a.AddrPort()
		return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port())
	}
	a, err := netip.ParseAddrPort(addr.String()) // a wrapper's
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// LocalHost returns the address the connection came to, as a Host.
func (o *Client) LocalHost() []byte {
	local := addrPort(o.conn.LocalAddr())
	if !local.IsValid() {
		return []byte("localhost")
	}
	return []byte(local.String())
}

func IsTrusted(a netip.Addr, trusted []netip.Prefix) bool {
	for _, p := range trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// AppendHeaders appends Via and X-Forwarded-*. What a client says of itself
// counts only if it is a trusted proxy; then it is added to.
func (o *Client) AppendHeaders(b []byte, req *h1.Request, e *h1.Edit, forwarded bool) []byte {
	if req.Minor() == 0 {
		b = append(b, lineViaOld...)
	} else {
		b = append(b, lineVia...)
	}
	trusted := o.Trusted
	if !trusted {
		e.Drop |= h1.Forwarding
	}
	e.Drop |= h1.Of(h1.FieldXForwardedFor)
	b = append(b, "X-Forwarded-For: "...)
	if trusted {
		b = appendFormer(b, req)
	}
	b = append(b, o.Text...)
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
		b = append(b, o.Proto...)
		b = append(b, "\r\n"...)
	}
	if forwarded {
		b = o.appendForwarded(b, req.Host())
	}
	return b
}

// appendForwarded appends this hop as RFC 7239 writes it. The elements of
// trusted proxies stay before it, in lines of their own.
func (o *Client) appendForwarded(b, host []byte) []byte {
	b = append(b, "Forwarded: for="...)
	if o.Addr.Is6() {
		b = append(b, '"', '[')
		b = append(b, o.Text...)
		b = append(b, ']', '"')
	} else {
		b = append(b, o.Text...)
	}
	if len(host) > 0 { // a judged one needs no escapes
		b = append(b, ";host=\""...)
		b = append(b, host...)
		b = append(b, '"')
	}
	b = append(b, ";proto="...)
	b = append(b, o.Proto...)
	return append(b, "\r\n"...)
}

// appendFormer appends what came as X-Forwarded-For, in one list.
func appendFormer(b []byte, req *h1.Request) []byte {
	const name = "X-Forwarded-For"
	for i := req.Find(name, 0); i >= 0; i = req.Find(name, i+1) {
		if _, v := req.Field(i); len(v) > 0 {
			b = append(b, v...)
			b = append(b, ", "...)
		}
	}
	return b
}
