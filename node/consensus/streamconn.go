package consensus

import (
	"net"
	"sync"
)

// streamConn is a connection that Stream knows of until it is closed.
type streamConn struct {
	net.Conn
	s    *Stream
	of   *layer // guarded by s.mu; nil until one accepts it
	once sync.Once
	done chan struct{} // latch
	err  error
}

// Close closes the connection once.
func (c *streamConn) Close() error {
	c.once.Do(func() {
		c.s.forget(c)
		c.err = c.Conn.Close()
		close(c.done)
	})
	return c.err
}
