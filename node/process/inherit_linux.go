package process

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Keepalive probes as package net asks for them on each connection that it accepts.
const (
	keepAliveSeconds = 15 // of silence, and between two probes
	keepAliveProbes  = 9
)

// inheritKeepAlive sets on the listening socket what its connections are to have: the
// kernel hands it on with each, where package net spends four system calls on it. Of a
// socket of Multipath TCP, which package net would listen by, kernels before 6.10 take not
// all of it, and those before 6.17 hand not all of it on.
func inheritKeepAlive(lc *net.ListenConfig) {
	lc.SetMultipathTCP(false)
	lc.KeepAlive = -1
	lc.Control = func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			for _, o := range [][3]int{
				{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1}, // for those that rawio accepts
				{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
				{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepAliveSeconds},
				{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, keepAliveSeconds},
				{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepAliveProbes},
			} {
				failed = errors.Join(failed, unix.SetsockoptInt(int(fd), o[0], o[1], o[2]))
			}
		})
		return errors.Join(err, failed)
	}
}
