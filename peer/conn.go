package peer

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
)

// Conn is a stream past the preface. Reads and writes go straight to the
// connection beneath: nothing is buffered here.
type Conn struct {
	net.Conn
	kind Kind
	peer Identity
	// direct means that nothing wraps the connection that was dialed or accepted.
	direct bool

	once    sync.Once
	onClose func(*Conn) // nil on the dialing side
	err     error
}

// Kind returns what the stream is for.
func (c *Conn) Kind() Kind { return c.kind }

// Node returns the other side's node id.
func (c *Conn) Node() string { return c.peer.Node }

// Boot returns the other side's boot.
func (c *Conn) Boot() uint64 { return c.peer.Boot }

// Nonce returns that of the other side's process, zero if it did not say it yet.
func (c *Conn) Nonce() uint64 { return c.peer.Nonce }

// Peer returns all that the other side said about itself.
func (c *Conn) Peer() Identity { return c.peer }

// NetConn returns the connection beneath, as Options.Dial, the listener or a
// Wrap hook made it. It must be closed through c.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Direct reports whether what SyscallConn reads is what Read reads. Over TLS it
// is not: then the socket is for looking at only.
func (c *Conn) Direct() bool { return c.direct }

// SyscallConn gives access to the socket, for looking at it without reading
// (MSG_PEEK). It returns errors.ErrUnsupported when there is none beneath.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	s, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("peer: raw access to %T: %w", c.Conn, errors.ErrUnsupported)
	}
	return s.SyscallConn()
}

// CloseWrite ends this side's half of the stream. It returns
// errors.ErrUnsupported when the connection beneath cannot be half closed.
func (c *Conn) CloseWrite() error {
	w, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return fmt.Errorf("peer: half close of %T: %w", c.Conn, errors.ErrUnsupported)
	}
	return w.CloseWrite()
}

// Close closes the stream. Further calls return what the first one did.
func (c *Conn) Close() error {
	c.once.Do(func() {
		c.err = c.Conn.Close()
		if c.onClose != nil {
			c.onClose(c)
		}
	})
	return c.err
}
