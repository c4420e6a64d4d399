package h1

import (
	"net"
	"time"
)

const (
	lingerTime  = time.Second
	lingerBytes = 1 << 20
)

// CloseWrite ends the sending side (FIN) and leaves the receiving one open. It
// reports whether the connection can do that.
func (c *Conn) CloseWrite() bool {
	half, ok := c.nc.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}

// CloseLinger closes a connection on which unread bytes may be under way, so
// that the reset they would cause does not eat the answer before the client
// has read it: FIN, then up to a second and a MiB of reading, then close. The
// caller has flushed.
func (c *Conn) CloseLinger() {
	defer func() { _ = c.Close() }() // nothing is left to be done about it
	if !c.CloseWrite() {
		return
	}
	if c.nc.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	sink := c.o.Buffers.get(smallBuffer)
	defer c.o.Buffers.put(sink)
	for left := lingerBytes; left > 0; {
		n, err := c.nc.Read(sink)
		left -= n
		if err != nil {
			return
		}
	}
}

// reset closes nc so that the peer sees a cut and not an end: by RST on TCP,
// without close_notify on TLS.
func reset(nc net.Conn) error {
	if t, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = t.NetConn()
	}
	if t, ok := nc.(interface{ SetLinger(sec int) error }); ok {
		_ = t.SetLinger(0) // closing is what is left
	} else {
		noLinger(nc)
	}
	return nc.Close()
}
