//go:build linux && (amd64 || arm64) && !race

package rawio

import (
	"net/netip"
	"syscall"
	"unsafe"
)

// Connects reports whether a TCP connection to an address on this machine succeeds
// immediately, and closes it. False means unknown: the caller must dial normally.
func Connects(addr netip.AddrPort) bool {
	if addr.Addr().Zone() != "" {
		return false
	}
	isIPv4 := addr.Addr().Unmap().Is4()
	family := uintptr(syscall.AF_INET6)
	if isIPv4 {
		family = syscall.AF_INET
	}
	fd, _, errno := syscall.RawSyscall(syscall.SYS_SOCKET, family, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if errno != 0 {
		return false
	}
	var sockaddr syscall.RawSockaddrAny
	size := encodeSockaddr(&sockaddr, addr, isIPv4)
	// The kernel processes a local listener's reply before the first call returns, so that the second call
	// succeeds.
	for errno = syscall.EINPROGRESS; errno == syscall.EINPROGRESS; {
		_, _, errno = syscall.RawSyscall(syscall.SYS_CONNECT, fd, uintptr(unsafe.Pointer(&sockaddr)), size) //nolint:gosec // as package syscall does it
	}
	connected := errno == 0 && !isSelfConnected(fd, addr)
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, fd, 0, 0) // does not block, because no data was sent
	return connected
}

// isSelfConnected reports whether a socket is connected to itself. If no process listens on
// a port of the ephemeral range, the kernel may choose that port as the source port.
func isSelfConnected(fd uintptr, to netip.AddrPort) bool {
	var sockaddr syscall.RawSockaddrAny
	size := uint32(unsafe.Sizeof(sockaddr))
	_, _, errno := syscall.RawSyscall(syscall.SYS_GETSOCKNAME, fd, uintptr(unsafe.Pointer(&sockaddr)), uintptr(unsafe.Pointer(&size))) //nolint:gosec // as package syscall does it
	return errno != 0 || parseSockaddr(int(fd), &sockaddr) == netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
}
