//go:build linux

package wsresume

import (
	"context"
	"net"
	"net/http"
	"syscall"

	"golang.org/x/sys/unix"
)

// connKey is the context key of the connection of a request.
type connKey struct{}

func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

func connOf(r *http.Request) net.Conn {
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	return conn
}

// register starts a connection after the previous one of its session, and returns a function
// that ends it. The kernel reports the end of one connection and the start of another in
// any order, and data of the first may be read after its end. So if the kernel reports
// the end of the previous connection, register waits until all its records are written.
// Otherwise there are two connections at once, which Check must detect.
func (c *appConn) register() (unregister func()) {
	c.mu.Lock()
	previous := c.conns[c.Session]
	c.conns[c.Session] = c
	c.mu.Unlock()
	if previous != nil && hasEnded(previous.acceptedConn) {
		<-previous.recorded
	}
	return func() {
		close(c.recorded)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.conns[c.Session] == c {
			delete(c.conns, c.Session)
		}
	}
}

// hasEnded reports whether either side has ended a connection.
func hasEnded(conn net.Conn) bool {
	sysConn, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sysConn.SyscallConn()
	if err != nil {
		return true
	}
	const established = 1 // TCP_ESTABLISHED
	open := false
	err = raw.Control(func(fd uintptr) {
		info, failed := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		open = failed == nil && info.State == established
	})
	return err != nil || !open
}
