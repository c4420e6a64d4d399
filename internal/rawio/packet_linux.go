//go:build linux && (amd64 || arm64) && !race

package rawio

import (
	"net/netip"
	"syscall"
	"unsafe"
)

// ReadFrom reads an available packet and its source address. It returns syscall.EAGAIN if
// there is none, and truncates a packet that is longer than p.
func ReadFrom(fd uintptr, p []byte) (n int, from netip.AddrPort, err error) {
	var sockaddr syscall.RawSockaddrAny
	for {
		size := uint32(unsafe.Sizeof(sockaddr))
		received, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), //nolint:gosec // as package syscall does it
			syscall.MSG_DONTWAIT, uintptr(unsafe.Pointer(&sockaddr)), uintptr(unsafe.Pointer(&size))) //nolint:gosec // as package syscall does it
		switch {
		case errno == 0:
			return int(received), parseSockaddr(int(fd), &sockaddr), nil
		case errno != syscall.EINTR:
			return 0, netip.AddrPort{}, errno
		}
	}
}

// WriteTo sends a packet. It returns syscall.EAGAIN if the socket buffer is full. isIPv4 must be
// true for an IPv4 socket, whose packets need an IPv4 address. On an IPv6 socket an IPv4 address is
// mapped. Zones are ignored.
func WriteTo(fd uintptr, p []byte, to netip.AddrPort, isIPv4 bool) error {
	var sockaddr syscall.RawSockaddrAny
	size := encodeSockaddr(&sockaddr, to, isIPv4)
	for {
		_, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), //nolint:gosec // as package syscall does it
			syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, uintptr(unsafe.Pointer(&sockaddr)), size) //nolint:gosec // as package syscall does it
		switch {
		case errno == 0:
			return nil
		case errno != syscall.EINTR:
			return errno
		}
	}
}

// encodeSockaddr is the reverse of parseSockaddr. It returns the length of the address.
func encodeSockaddr(sockaddr *syscall.RawSockaddrAny, addr netip.AddrPort, isIPv4 bool) uintptr {
	port := func(p *uint16) { *(*[2]byte)(unsafe.Pointer(p)) = [2]byte{byte(addr.Port() >> 8), byte(addr.Port())} } //nolint:gosec // as package syscall does it
	if isIPv4 {
		in := (*syscall.RawSockaddrInet4)(unsafe.Pointer(sockaddr)) //nolint:gosec // as package syscall does it
		in.Family, in.Addr = syscall.AF_INET, addr.Addr().Unmap().As4()
		port(&in.Port)
		return unsafe.Sizeof(*in)
	}
	in := (*syscall.RawSockaddrInet6)(unsafe.Pointer(sockaddr)) //nolint:gosec // as package syscall does it
	in.Family, in.Addr = syscall.AF_INET6, addr.Addr().As16()
	port(&in.Port)
	return unsafe.Sizeof(*in)
}
