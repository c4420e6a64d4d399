package process

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Keepalive parameters, the same as the defaults of package net.
const (
	keepAliveSeconds = 15 // idle time before the first probe, and interval between probes
	keepAliveProbes  = 9
)

// inheritKeepAlive sets the keepalive options on the listening socket. The kernel copies them to
// accepted connections, which saves the four system calls of package net for each connection.
// Multipath TCP, the default of package net, is disabled: kernels before 6.10 reject some of the
// options on such a socket, and kernels before 6.17 do not copy all of them.
func inheritKeepAlive(lc *net.ListenConfig) {
	lc.SetMultipathTCP(false)
	lc.KeepAlive = -1
	lc.Control = func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			for _, option := range [][3]int{
				{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1}, // for connections that package rawio accepts
				{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
				{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepAliveSeconds},
				{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, keepAliveSeconds},
				{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepAliveProbes},
			} {
				failed = errors.Join(failed, unix.SetsockoptInt(int(fd), option[0], option[1], option[2]))
			}
		})
		return errors.Join(err, failed)
	}
}
