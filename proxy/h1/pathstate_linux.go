package h1

import (
	"time"

	"golang.org/x/sys/unix"
)

// readPath reads TCP_INFO. It reports false if fd is not a TCP socket.
func readPath(fd uintptr) (path, bool) {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return path{}, false
	}
	// A data segment that acknowledges nothing new updates only Last_data_recv.
	p := path{silent: milliseconds(min(info.Last_ack_recv, info.Last_data_recv)), probes: int(info.Probes)}
	if info.Unacked > 0 && info.Retransmits > 0 {
		// Each timeout was twice as long as the previous one (RFC 6298 section 5.5). The timeout
		// of a tail loss probe is not counted.
		p.retransmits = int(info.Retransmits)
		first := time.Duration(info.Rto) * time.Microsecond >> info.Backoff
		p.unacked = first<<p.retransmits - first + milliseconds(info.Last_data_sent)
	}
	return p, true
}

func milliseconds(n uint32) time.Duration { return time.Duration(n) * time.Millisecond }

// sendProbe makes the kernel send a keepalive probe now. Setting TCP_KEEPIDLE to one second on
// a socket that has been silent for longer makes a probe due at once
// (tcp_sock_set_keepidle_locked in net/ipv4/tcp.c).
func sendProbe(fd uintptr) {
	_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 1) // if it fails, the probes of the kernel remain
}
