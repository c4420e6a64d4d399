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
	var at syscall.RawSockaddrAny
	for {
		size := uint32(unsafe.Sizeof(at))
		got, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), //nolint:gosec // as package syscall does it
			syscall.MSG_DONTWAIT, uintptr(unsafe.Pointer(&at)), uintptr(unsafe.Pointer(&size))) //nolint:gosec // as package syscall does it
		switch {
		case errno == 0:
			return int(got), addrOf(int(fd), &at), nil
		case errno != syscall.EINTR:
			return 0, netip.AddrPort{}, errno
		}
	}
}

// WriteTo sends a packet. It returns syscall.EAGAIN if the socket buffer is full. four must
// be true for an IPv4 socket, whose packets need an IPv4 address. On an IPv6 socket an IPv4
// address is mapped. Zones are ignored.
func WriteTo(fd uintptr, p []byte, to netip.AddrPort, four bool) error {
	var at syscall.RawSockaddrAny
	size := putAddr(&at, to, four)
	for {
		_, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), //nolint:gosec // as package syscall does it
			syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, uintptr(unsafe.Pointer(&at)), size) //nolint:gosec // as package syscall does it
		switch {
		case errno == 0:
			return nil
		case errno != syscall.EINTR:
			return errno
		}
	}
}

// putAddr is the reverse of addrOf. It returns the length of the address.
func putAddr(a *syscall.RawSockaddrAny, to netip.AddrPort, four bool) uintptr {
	port := func(p *uint16) { *(*[2]byte)(unsafe.Pointer(p)) = [2]byte{byte(to.Port() >> 8), byte(to.Port())} } //nolint:gosec // as package syscall does it
	if four {
		in := (*syscall.RawSockaddrInet4)(unsafe.Pointer(a)) //nolint:gosec // as package syscall does it
		in.Family, in.Addr = syscall.AF_INET, to.Addr().Unmap().As4()
		port(&in.Port)
		return unsafe.Sizeof(*in)
	}
	in := (*syscall.RawSockaddrInet6)(unsafe.Pointer(a)) //nolint:gosec // as package syscall does it
	in.Family, in.Addr = syscall.AF_INET6, to.Addr().As16()
	port(&in.Port)
	return unsafe.Sizeof(*in)
}
