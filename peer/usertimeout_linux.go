package peer

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout makes the kernel close t if sent bytes stay unacknowledged, or the receive window
// of the other side stays closed, for the timeout.
func setUserTimeout(t *net.TCPConn, timeout time.Duration) {
	rc, err := t.SyscallConn()
	if err != nil {
		return
	}
	_ = rc.Control(func(fd uintptr) {
		ms := max(int(timeout.Milliseconds()), 1) // zero would mean the kernel's default
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, ms)
	})
}
