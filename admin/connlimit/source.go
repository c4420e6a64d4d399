package connlimit

import (
	"net"
	"net/netip"
)

// SourceOf returns the source of a remote address for limits: an IPv4 address, or the /64 network
// of an IPv6 address, because one host can use a whole /64. It returns the zero Addr if remote is
// malformed.
func SourceOf(remote string) netip.Addr {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		return ip
	}
	network, err := ip.Prefix(64)
	if err != nil {
		return ip
	}
	return network.Addr()
}
