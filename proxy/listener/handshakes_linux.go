package listener

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// Layout of a request of sock_diag(7) for TCP sockets, struct inet_diag_req_v2 after struct nlmsghdr.
const (
	diagRequestSize  = unix.SizeofNlMsghdr + 56
	diagFamilyOffset = unix.SizeofNlMsghdr
	diagProtoOffset  = unix.SizeofNlMsghdr + 1
	diagStatesOffset = unix.SizeofNlMsghdr + 4
	diagPortOffset   = unix.SizeofNlMsghdr + 8 // in network byte order

	// handshakeStates are the states of a TCP handshake in progress: TCP_SYN_RECV and TCP_NEW_SYN_RECV.
	handshakeStates = 1<<3 | 1<<12
)

// hasHandshakes reports whether TCP handshakes with the port of a listening socket are in progress. It returns true
// if the kernel does not tell.
func hasHandshakes(fd int) bool {
	addr, err := unix.Getsockname(fd)
	if err != nil {
		return true
	}
	switch addr := addr.(type) {
	case *unix.SockaddrInet4:
		return hasHandshakesOf(unix.AF_INET, addr.Port)
	case *unix.SockaddrInet6:
		// A dual-stack listener also accepts connections of IPv4.
		return hasHandshakesOf(unix.AF_INET6, addr.Port) || hasHandshakesOf(unix.AF_INET, addr.Port)
	}
	return false
}

// hasHandshakesOf is hasHandshakes for one address family.
func hasHandshakesOf(family uint8, port int) bool {
	sock, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return true
	}
	defer func() { _ = unix.Close(sock) }()
	request := make([]byte, diagRequestSize)
	binary.NativeEndian.PutUint32(request, diagRequestSize)
	binary.NativeEndian.PutUint16(request[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	request[diagFamilyOffset], request[diagProtoOffset] = family, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(request[diagStatesOffset:], handshakeStates)
	binary.BigEndian.PutUint16(request[diagPortOffset:], uint16(port))
	if err = unix.Sendto(sock, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return true
	}
	// The first message of the response is a socket, or the end of the list.
	response := make([]byte, unix.Getpagesize())
	n, _, err := unix.Recvfrom(sock, response, 0)
	for errors.Is(err, unix.EINTR) {
		n, _, err = unix.Recvfrom(sock, response, 0)
	}
	if err != nil || n < unix.SizeofNlMsghdr {
		return true
	}
	return binary.NativeEndian.Uint16(response[4:]) != unix.NLMSG_DONE
}
