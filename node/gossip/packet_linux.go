//go:build linux && (amd64 || arm64) && !race

package gossip

import (
	"net/netip"
	"syscall"

	"shardway/internal/rawio"
)

// readFrom and writeTo are those of a *net.UDPConn, without a word to the scheduler: on a
// machine with little to do each such word wakes the runtime's monitor thread, which then
// looks around for a while, at several times the cost of the packet.

func (s *transport) readFrom(p []byte) (n int, from netip.AddrPort, err error) {
	waited := s.raw.Read(func(fd uintptr) bool {
		n, from, err = rawio.ReadFrom(fd, p)
		return err != syscall.EAGAIN //nolint:errorlint // never wrapped
	})
	if waited != nil {
		return 0, from, waited
	}
	return n, from, err
}

func (s *transport) writeTo(p []byte, to netip.AddrPort) (err error) {
	if to.Addr().Zone() != "" || s.isIPv4 && !to.Addr().Unmap().Is4() {
		_, err = s.udp.WriteToUDPAddrPort(p, to)
		return err
	}
	waited := s.raw.Write(func(fd uintptr) bool {
		err = rawio.WriteTo(fd, p, to, s.isIPv4)
		return err != syscall.EAGAIN //nolint:errorlint // never wrapped
	})
	if waited != nil {
		return waited
	}
	return err
}
