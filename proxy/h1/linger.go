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

// CloseLast closes a connection whose peer has said that it sends nothing more, and of
// which all has been read: at once if it kept its word so far (RFC 9112 section 9.6 has
// it send no other request then), else as CloseLinger does. It saves half of what closing
// costs: nobody waits for the peer's end. The caller has flushed.
func (c *Conn) CloseLast() {
	// Under TLS there is a close_notify to come.
	if s := c.in.sock; s == nil || c.in.buffered() > 0 || c.out.err != nil || !s.silent(c.in.few[:]) {
		c.CloseLinger()
		return
	}
	_ = c.Close() // nothing is left to be done about it
}

// Cut closes the connection at once, whatever it carries, so that the peer sees
// a cut and not an end: by a reset where there is TCP, without close_notify on
// TLS, which might wait for a peer that reads nothing. Any goroutine may call it.
func (c *Conn) Cut() error {
	if c.closed.Swap(true) {
		return nil
	}
	defer c.heed()
	defer c.in.ready() // as in Close
	return reset(c.nc)
}

// reset closes nc as Cut does: the socket first, then what wraps it.
func reset(nc net.Conn) error {
	socket := nc
	for next := below(nc); next != nil; next = below(next) {
		socket = next
	}
	if t, ok := socket.(interface{ SetLinger(sec int) error }); ok {
		_ = t.SetLinger(0) // closing is what is left
	} else {
		noLinger(socket)
	}
	if socket == nc {
		return nc.Close()
	}
	err := socket.Close()
	_ = nc.Close() // lets go of what it holds
	return err
}
