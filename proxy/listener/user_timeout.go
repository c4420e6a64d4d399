package listener

import (
	"net"
	"syscall"
	"time"

	"shardway/internal/rawio"
)

// minUserTimeout is the minimum time after which the kernel closes a connection whose client does
// not acknowledge data. A shorter interruption of the network path does not end a connection.
const minUserTimeout = 30 * time.Second

// userTimeout returns how long a client may leave sent data unacknowledged, or keep its receive
// window closed, before the kernel closes the connection. Zero means the default of the kernel.
//
// The time is the idle timeout, which also limits how long the proxy waits for a client that
// accepts no data, so a slow reader is not affected. It ends the connection of a client that has
// vanished without a FIN, while its app writes less data than the socket can buffer, such as an
// occasional event.
func userTimeout(idleTimeout time.Duration) time.Duration {
	if idleTimeout <= 0 {
		return 0
	}
	return max(idleTimeout, minUserTimeout)
}

// SetUserTimeout sets the time after which the kernel closes the connection of a client that does not
// acknowledge data (Linux only). See userTimeout for the time. Setting it on the
// listener would have no effect, because connections of MPTCP, which package net uses for
// listeners, do not inherit it.
func SetUserTimeout(conn net.Conn, idleTimeout time.Duration) {
	for {
		if sc, ok := conn.(syscall.Conn); ok {
			if raw, err := sc.SyscallConn(); err == nil {
				_ = raw.Control(func(fd uintptr) { _ = rawio.SetUserTimeout(fd, userTimeout(idleTimeout)) }) // on failure the default of the kernel applies
			}
			return
		}
		wraps, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return
		}
		conn = wraps.NetConn()
	}
}
