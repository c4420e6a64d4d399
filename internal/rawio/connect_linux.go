//go:build linux && (amd64 || arm64) && !race

package rawio

import (
	"net/netip"
	"syscall"
	"unsafe"
)

// Connects reports whether a TCP connection to an address is there at once, as it is where
// somebody listens on the same machine, and closes it. False says nothing: who wants to
// know waits for a connection as usual.
func Connects(to netip.AddrPort) bool {
	if to.Addr().Zone() != "" {
		return false
	}
	four := to.Addr().Unmap().Is4()
	family := uintptr(syscall.AF_INET6)
	if four {
		family = syscall.AF_INET
	}
	fd, _, errno := syscall.RawSyscall(syscall.SYS_SOCKET, family, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if errno != 0 {
		return false
	}
	var at syscall.RawSockaddrAny
	size := putAddr(&at, to, four)
	// The answer of a listener on this machine is taken up as the first call ends: then the
	// second one succeeds.
	for errno = syscall.EINPROGRESS; errno == syscall.EINPROGRESS; {
		_, _, errno = syscall.RawSyscall(syscall.SYS_CONNECT, fd, uintptr(unsafe.Pointer(&at)), size) //nolint:gosec // as package syscall does it
	}
	there := errno == 0 && !sameEnds(fd, to)
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, fd, 0, 0) // it does not wait: nothing was sent
	return there
}

// sameEnds reports whether a socket is connected with itself: where nobody listens at a port
// from which the kernel chooses that of a new socket, it may choose that one.
func sameEnds(fd uintptr, to netip.AddrPort) bool {
	var at syscall.RawSockaddrAny
	size := uint32(unsafe.Sizeof(at))
	_, _, errno := syscall.RawSyscall(syscall.SYS_GETSOCKNAME, fd, uintptr(unsafe.Pointer(&at)), uintptr(unsafe.Pointer(&size))) //nolint:gosec // as package syscall does it
	return errno != 0 || addrOf(int(fd), &at) == netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
}
