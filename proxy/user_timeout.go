package proxy

import (
	"net"
	"syscall"
	"time"

	"shardway/internal/rawio"
)

// minUserTimeout is the least time after which the kernel closes a connection whose client
// acknowledges nothing. Connections survive a path that is down for less.
const minUserTimeout = 30 * time.Second

// userTimeout returns how long a client may acknowledge nothing of what was sent to it, or keep its
// window closed, before the kernel closes the connection. Zero means the default of the kernel. It
// is the idle timeout, which is also how long the proxy waits for a client that accepts no data, so
// a slow reader loses nothing. It also ends the connection of a client that has vanished without
// FIN while its app writes less than the socket buffers, such as an event now and then.
func userTimeout(set *Settings) time.Duration {
	if set.IdleTimeout <= 0 {
		return 0
	}
	return max(set.IdleTimeout, minUserTimeout)
}

// setUserTimeout sets userTimeout for the connection of a client (Linux). Setting it on the
// listener has no effect, because MPTCP, which package net listens with, does not inherit it.
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
