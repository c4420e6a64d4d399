//go:build !(linux && (amd64 || arm64) && !race)

package gossip

import "net/netip"

func (s *transport) readFrom(p []byte) (n int, from netip.AddrPort, err error) {
	return s.udp.ReadFromUDPAddrPort(p)
}

func (s *transport) writeTo(p []byte, to netip.AddrPort) error {
	_, err := s.udp.WriteToUDPAddrPort(p, to)
	return err
}
