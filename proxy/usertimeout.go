package proxy

import (
	"net"
	"syscall"
	"time"

	"shardway/internal/rawio"
)

// minUserTimeout is the least time after which the kernel breaks a connection whose client
// acknowledges nothing: a path that is down for less has its connections back.
const minUserTimeout = 30 * time.Second

// userTimeout returns how long a client may acknowledge nothing of what was sent to it, or keep its
// window closed, before the kernel breaks the connection; zero: as long as the kernel waits by itself.
// It is the idle timeout, for which a client that takes nothing is waited for in any case, so a client
// that reads slowly loses nothing by it. What it adds: a client that has vanished without FIN ends
// also while its app writes less than the socket keeps, say an event now and then.
func userTimeout(set *Settings) time.Duration {
	if set.IdleTimeout <= 0 {
		return 0
	}
	return max(set.IdleTimeout, minUserTimeout)
}

// setUserTimeout sets userTimeout for a client's connection (Linux). Its listener cannot have it
// set once for all: MPTCP, which package net listens with, does not hand it on.
func setUserTimeout(conn net.Conn, set *Settings) {
	for {
		if sc, ok := conn.(syscall.Conn); ok {
			if raw, err := sc.SyscallConn(); err == nil {
				_ = raw.Control(func(fd uintptr) { _ = rawio.SetUserTimeout(fd, userTimeout(set)) }) // without, the kernel's own time counts
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
