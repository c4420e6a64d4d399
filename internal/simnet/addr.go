package simnet

import (
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
)

// Errors in the form in which real sockets return them.
var (
	errNoRoute          = os.NewSyscallError("connect", syscall.EHOSTUNREACH)
	errRefused          = os.NewSyscallError("connect", syscall.ECONNREFUSED)
	errTimedOut         = os.NewSyscallError("connect", syscall.ETIMEDOUT)
	errAddrInUse        = os.NewSyscallError("bind", syscall.EADDRINUSE)
	errAddrNotAvailable = os.NewSyscallError("bind", syscall.EADDRNOTAVAIL)
	errReset            = os.NewSyscallError("read", syscall.ECONNRESET)
	errPipe             = os.NewSyscallError("write", syscall.EPIPE)
	errUserTimeout      = os.NewSyscallError("read", syscall.ETIMEDOUT)
)

func splitAddr(addr string) (host string, port uint16, err error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return "", 0, &net.AddrError{Err: "invalid port", Addr: addr}
	}
	return host, uint16(n), nil
}

func tcpAddr(ip netip.Addr, port uint16) *net.TCPAddr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, port))
}
