//go:build linux && (amd64 || arm64) && !race

package rawio

import (
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
)

func TestConnectsToLocalListener(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		ln, err := net.Listen("tcp", addr)
		if err != nil && strings.HasPrefix(addr, "[") {
			continue // no IPv6 here
		}
		if err != nil {
			t.Fatal(err)
		}
		at := netip.MustParseAddrPort(ln.Addr().String())
		for range 3 {
			if !Connects(at) {
				t.Errorf("%v: not connected", at)
			}
			c, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
				t.Errorf("%v: the other end says something", at)
			}
			_ = c.Close()
		}
		_ = ln.Close()
		if Connects(at) {
			t.Errorf("%v: connected, though nobody listens", at)
		}
	}
}

// A socket can be connected to itself if no process listens at the port.
func TestConnectsIgnoresSelfConnection(t *testing.T) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(fd) }()
	if err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	sa, err := syscall.Getsockname(fd)
	own, ok := sa.(*syscall.SockaddrInet4)
	if err != nil || !ok {
		t.Fatal(err)
	}
	if err := syscall.Connect(fd, own); err != nil {
		t.Skipf("it does not meet itself here: %v", err)
	}
	at := netip.AddrPortFrom(netip.AddrFrom4(own.Addr), uint16(own.Port))
	if !isSelfConnected(uintptr(fd), at) {
		t.Errorf("%v is connected with itself, and passes for somebody who listens", at)
	}
	if isSelfConnected(uintptr(fd), netip.AddrPortFrom(at.Addr(), at.Port()+1)) {
		t.Error("every connection passes for one with itself")
	}
}
