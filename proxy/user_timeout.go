package proxy

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
func userTimeout(set *Settings) time.Duration {
	if set.IdleTimeout <= 0 {
		return 0
	}
	return max(set.IdleTimeout, minUserTimeout)
}

// setUserTimeout sets userTimeout for the connection of a client (Linux only). Setting it on the
// listener would have no effect, because connections of MPTCP, which package net uses for
// listeners, do not inherit it.
func setUserTimeout(conn net.Conn, set *Settings) {
	for {
		if sc, ok := conn.(syscall.Conn); ok {
			if raw, err := sc.SyscallConn(); err == nil {
				_ = raw.Control(func(fd uintptr) { _ = rawio.SetUserTimeout(fd, userTimeout(set)) }) // on failure the default of the kernel applies
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
