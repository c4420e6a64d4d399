//go:build linux && (amd64 || arm64) && !race

package gossip

import (
	"net/netip"
	"syscall"

	"shardway/internal/rawio"
)

// readFrom and writeTo replace the methods of *net.UDPConn. They make system calls without entersyscall
// and exitsyscall: on an idle machine, entersyscall wakes the monitor thread of the runtime, which costs
// several times as much as the packet.

func (t *transport) readFrom(p []byte) (n int, from netip.AddrPort, err error) {
	pollErr := t.rawUDP.Read(func(fd uintptr) bool {
		n, from, err = rawio.ReadFrom(fd, p)
		return err != syscall.EAGAIN //nolint:errorlint // never wrapped
	})
	if pollErr != nil {
		return 0, from, pollErr
	}
	return n, from, err
}

// writeTo sends one packet without an allocation. Destinations that rawio cannot encode go through package net.
func (t *transport) writeTo(p []byte, to netip.AddrPort) (err error) {
	if to.Addr().Zone() != "" || t.isIPv4 && !to.Addr().Unmap().Is4() {
		_, err = t.udp.WriteToUDPAddrPort(p, to)
		return err
	}
	pollErr := t.rawUDP.Write(func(fd uintptr) bool {
		err = rawio.WriteTo(fd, p, to, t.isIPv4)
		return err != syscall.EAGAIN //nolint:errorlint // never wrapped
	})
	if pollErr != nil {
		return pollErr
	}
	return err
}
