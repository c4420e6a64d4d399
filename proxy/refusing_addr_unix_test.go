//go:build unix

package proxy_test

import (
	"net"
	"strconv"
	"syscall"
	"testing"
)

// refusingAddr returns an address at which connections are refused. It keeps the port reserved:
// another test might reuse a port that was only closed.
func refusingAddr(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	sa, err := syscall.Getsockname(fd)
	at, ok := sa.(*syscall.SockaddrInet4)
	if err != nil || !ok {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(at.Port))
}
