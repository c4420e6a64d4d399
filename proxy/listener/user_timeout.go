package listener

import (
	"net"
	"syscall"
	"time"

	"shardway/internal/rawio"
)

// minUserTimeout is the minimum time after which the kernel closes a connection whose client does
// not acknowledge data. Shorter network outages do not end a connection.
const minUserTimeout = 30 * time.Second

// userTimeout returns how long a client may leave sent data unacknowledged, or keep its receive
// window closed, before the kernel closes the connection. Zero means the kernel's default.
//
// The time is the idle timeout, which also limits how long the proxy waits for a client that
// accepts no data, so a slow reader is not affected. It closes the connection of a client that has
// vanished without a FIN while the app writes less data than the socket can buffer, such as an
// occasional event.
func userTimeout(idleTimeout time.Duration) time.Duration {
	if idleTimeout <= 0 {
		return 0
	}
	return max(idleTimeout, minUserTimeout)
}

// SetUserTimeout sets the time after which the kernel closes the connection of a client that does
// not acknowledge data (Linux only). userTimeout computes the time. Setting it on the listener
// would have no effect, because MPTCP connections, which package net uses for listeners, do not
// inherit it.
func SetUserTimeout(conn net.Conn, idleTimeout time.Duration) {
	for {
		if socket, ok := conn.(syscall.Conn); ok {
			if raw, err := socket.SyscallConn(); err == nil {
				// On failure, the kernel's default applies.
				_ = raw.Control(func(fd uintptr) { _ = rawio.SetUserTimeout(fd, userTimeout(idleTimeout)) })
			}
			return
		}
		wrapper, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return
		}
		conn = wrapper.NetConn()
	}
}
