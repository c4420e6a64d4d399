package listener

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// dropSYNs makes a listening TCP socket drop each segment that would start a connection, with a
// socket filter (socket(7), SO_ATTACH_FILTER). Handshakes in progress continue, and connections in
// the backlog are kept. Accepted connections inherit the filter, which does not affect them,
// because an established connection ignores a SYN (RFC 9293 section 3.10.7.4).
func dropSYNs(fd int) error {
	const flagsOffset, syn, ack = 13, 0x02, 0x10 // the octet of flags in the TCP header
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flagsOffset},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: syn | ack},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: syn, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1},
	}
	err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	if err != nil {
		return fmt.Errorf("listener: attach a filter to a listener: %w", err)
	}
	return nil
}
