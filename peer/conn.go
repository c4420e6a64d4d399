package peer

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
)

// Conn is a stream after the handshake. Reads and writes go directly to the underlying connection,
// without buffering.
type Conn struct {
	net.Conn
	kind Kind
	peer Identity
	// direct is set if no wrapper, such as TLS, is between the stream and the socket.
	direct bool

	once    sync.Once
	onClose func(*Conn) // nil on the dialing side
	err     error
}

// Kind returns the purpose of the stream.
func (c *Conn) Kind() Kind { return c.kind }

// Node returns the node id of the other side.
func (c *Conn) Node() string { return c.peer.Node }

// Boot returns the boot of the other side.
func (c *Conn) Boot() uint64 { return c.peer.Boot }

// Nonce returns the nonce of the process at the other side, or zero if it has not reported one.
func (c *Conn) Nonce() uint64 { return c.peer.Nonce }

// Peer returns the identity that the other side has reported.
func (c *Conn) Peer() Identity { return c.peer }

// NetConn returns the underlying connection, as Options.Dial, the listener or a Wrap hook created
// it. It must be closed through c.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Direct reports whether SyscallConn reads the same bytes as Read. With TLS it does not; then the
// socket may only be inspected.
func (c *Conn) Direct() bool { return c.direct }

// SyscallConn returns the socket, so that the caller can inspect it without reading (MSG_PEEK). It
// returns errors.ErrUnsupported if there is no socket.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	s, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("peer: raw access to %T: %w", c.Conn, errors.ErrUnsupported)
	}
	return s.SyscallConn()
}

// CloseWrite closes the sending side. It returns errors.ErrUnsupported if the underlying connection
// does not support that.
func (c *Conn) CloseWrite() error {
	w, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return fmt.Errorf("peer: half close of %T: %w", c.Conn, errors.ErrUnsupported)
	}
	return w.CloseWrite()
}

// Close closes the stream. Further calls return the result of the first one.
func (c *Conn) Close() error {
	c.once.Do(func() {
		c.err = c.Conn.Close()
		if c.onClose != nil {
			c.onClose(c)
		}
	})
	return c.err
}
