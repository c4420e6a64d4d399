package h1

import (
	"time"

	"golang.org/x/sys/unix"
)

// pathOf asks the kernel; false where fd is no TCP socket.
func pathOf(fd uintptr) (path, bool) {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return path{}, false
	}
	p := path{silent: time.Duration(info.Last_ack_recv) * time.Millisecond, probes: int(info.Probes)}
	if info.Unacked > 0 {
		p.unanswered = int(info.Retransmits)
	}
	return p, true
}
