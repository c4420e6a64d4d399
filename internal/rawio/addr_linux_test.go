//go:build linux && (amd64 || arm64)

package rawio

import (
	"net"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// linkLocal returns a link-local listen address. Such an address is valid on one link only,
// so it is complete only with its zone.
func linkLocal(t *testing.T) (all []string) {
	t.Helper()
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		addrs, _ := link.Addrs() // of one that has gone there are none
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.To4() == nil && n.IP.IsLinkLocalUnicast() {
				all = append(all, "["+n.IP.String()+"%"+link.Name+"]:0")
			}
		}
	}
	return all
}

// The zone of an address is the name of the link as in package net, or its number if there
// is no such link. An address without a zone is valid on every link.
func TestZoneIsNameOfLink(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Skipf("no loopback: %v", err)
	}
	s, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no IPv6 here: %v", err)
	}
	defer func() { _ = unix.Close(s) }()
	for want, zone := range map[string]uint32{"fe80::1": 0, "fe80::1%lo": uint32(lo.Index), "fe80::1%1000000007": 1000000007} {
		from := syscall.RawSockaddrAny{Addr: syscall.RawSockaddr{Family: syscall.AF_INET6}}
		in := (*syscall.RawSockaddrInet6)(unsafe.Pointer(&from))
		in.Addr, in.Scope_id = [16]byte{0: 0xfe, 1: 0x80, 15: 1}, zone
		if got := parseSockaddr(s, &from).Addr().String(); got != want {
			t.Errorf("zone %d: %s, want %s", zone, got, want)
		}
	}
}

func TestConnHasAddressesOfSocket(t *testing.T) {
	for _, addr := range append(linkLocal(t), "127.0.0.1:0", "[::1]:0") {
		t.Run(addr, func(t *testing.T) {
			c, far := pair(t, addr)
			if c.RemoteAddr().String() != far.LocalAddr().String() || c.LocalAddr().String() != far.RemoteAddr().String() {
				t.Errorf("%v → %v, the client says %v → %v", c.RemoteAddr(), c.LocalAddr(), far.LocalAddr(), far.RemoteAddr())
			}
			if c.PeerAddr().String() != far.LocalAddr().String() {
				t.Errorf("PeerAddr = %v, want %v", c.PeerAddr(), far.LocalAddr())
			}
			if err := c.control(func(fd uintptr) {
				if now, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY); now == 0 || err != nil {
					t.Errorf("TCP_NODELAY = %d, %v, want what the listening socket had", now, err)
				}
			}); err != nil {
				t.Error(err)
			}
		})
	}
}
