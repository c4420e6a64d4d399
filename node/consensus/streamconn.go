package consensus

import (
	"net"
	"sync"
)

// streamConn is a connection that its Stream tracks until it is closed.
type streamConn struct {
	net.Conn
	stream *Stream
	layer  *streamLayer // protected by the mutex of the stream; nil until a layer accepts it
	once   sync.Once
	done   chan struct{} // closed by Close
	err    error
}

// Close closes the connection. Repeated calls return the same error.
func (c *streamConn) Close() error {
	c.once.Do(func() {
		c.stream.untrack(c)
		c.err = c.Conn.Close()
		close(c.done)
	})
	return c.err
}
