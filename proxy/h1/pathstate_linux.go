package h1

import (
	"time"

	"golang.org/x/sys/unix"
)

// readPath asks the kernel; false where fd is no TCP socket.
func readPath(fd uintptr) (path, bool) {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return path{}, false
	}
	// Data that acknowledges nothing new counts as data only.
	p := path{silent: milliseconds(min(info.Last_ack_recv, info.Last_data_recv)), probes: int(info.Probes)}
	if info.Unacked > 0 && info.Retransmits > 0 {
		// Each wait was twice as long as the one before (RFC 6298 section 5.5); that of
		// a tail loss probe is not counted.
		p.resent = int(info.Retransmits)
		first := time.Duration(info.Rto) * time.Microsecond >> info.Backoff
		p.unacked = first<<p.resent - first + milliseconds(info.Last_data_sent)
	}
	return p, true
}

func milliseconds(n uint32) time.Duration { return time.Duration(n) * time.Millisecond }

// sendProbe has the kernel send a keepalive probe now: a socket that is set to send
// them after a second, and has been silent for longer, has one due at that moment
// (tcp_sock_set_keepidle_locked in net/ipv4/tcp.c).
func sendProbe(fd uintptr) {
	_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 1) // without, the kernel's own come
}
