package gossip

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Advertise returns the address that other nodes should use for a port that is bound to bind. It
// is the first of:
//
//   - advertise, if it is not empty
//   - bind, if it has a host
//   - the local address of the route to the first join address
//   - the only address of the machine
//
// If several addresses are possible, it returns an error that lists them. If advertise has no
// port, the port of bind is used. If advertise has only a port, the host of bind is not used: the
// last two rules select the address. Other ports of the node may use this function as well.
func Advertise(ctx context.Context, bind, advertise string, join []string, resolver Resolver) (netip.AddrPort, error) {
	host, port := splitHostPort(bind)
	portSource := fmt.Sprintf("listening address %q", bind)
	if advertise != "" {
		advertisedHost, advertisedPort := splitHostPort(advertise)
		host = advertisedHost
		if advertisedPort != "" {
			port = advertisedPort
			portSource = fmt.Sprintf("advertised address %q", advertise)
		}
	}
	if port == "" {
		return netip.AddrPort{}, fmt.Errorf("gossip: the %s has no port", portSource)
	}
	portNumber, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("gossip: %q in the %s is not a port: must be 0 to 65535", port, portSource)
	}
	ip, err := advertiseHost(ctx, host, join, resolver)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(portNumber)), nil
}

// advertiseHost returns the IP address for Advertise. host may be empty.
func advertiseHost(ctx context.Context, host string, join []string, resolver Resolver) (netip.Addr, error) {
	if host == "localhost" {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case err == nil && !ip.IsUnspecified():
		return ip, nil
	case err != nil && host != "":
		resolved, err := resolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return netip.Addr{}, fmt.Errorf("gossip: advertise address %q: %w", host, err)
		}
		return resolved[0], nil
	}
	if local, ok := localAddrOfRoute(ctx, join, resolver); ok {
		return local, nil
	}
	return onlyMachineAddress(ip.Is4())
}

// localAddrOfRoute returns the local address of the route to the first join address that has a route.
// It returns a loopback address only if there is no other: the host name of the machine may
// resolve to loopback, where no other machine can reach it.
func localAddrOfRoute(ctx context.Context, join []string, resolver Resolver) (local netip.Addr, ok bool) {
	resolved := make([][]netip.AddrPort, len(join))
	routes := make([]string, len(join))
	for i, target := range join {
		routes[i] = routeTo(target)
	}
	for result := range resolveAll(ctx, resolver, routes) {
		resolved[result.index] = result.addrs
	}
	for _, addrs := range resolved {
		if len(addrs) == 0 {
			continue
		}
		source, err := localAddrFor(ctx, addrs[0])
		if err != nil {
			continue
		}
		if !source.IsLoopback() {
			return source, true
		}
		if !ok {
			local, ok = source, true
		}
	}
	return local, ok
}

// localAddrFor returns the source address of packets to an address. It sends nothing: connecting a
// UDP socket only queries the route.
func localAddrFor(ctx context.Context, dest netip.AddrPort) (netip.Addr, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "udp", dest.String())
	if err != nil {
		return netip.Addr{}, err
	}
	defer func() { _ = conn.Close() }()
	local, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return netip.Addr{}, err
	}
	return local.Addr().Unmap(), nil
}

// onlyMachineAddress returns the only address of the machine that other machines can reach.
func onlyMachineAddress(ipv4Only bool) (netip.Addr, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("gossip: addresses of this machine: %w", err)
	}
	return selectAddress(addrs, ipv4Only)
}

// selectAddress returns the only address that is neither loopback nor link-local. IPv4 is
// preferred, because most machines have both.
func selectAddress(addrs []net.Addr, ipv4Only bool) (netip.Addr, error) {
	var ipv4, ipv6 []string
	for _, addr := range addrs {
		prefix, err := netip.ParsePrefix(addr.String())
		if err != nil || !prefix.Addr().IsGlobalUnicast() {
			continue
		}
		if prefix.Addr().Is4() {
			ipv4 = append(ipv4, prefix.Addr().String())
		} else {
			ipv6 = append(ipv6, prefix.Addr().String())
		}
	}
	candidates := ipv4
	if len(ipv4) == 0 && !ipv4Only {
		candidates = ipv6
	}
	if len(candidates) != 1 {
		found := "none"
		if len(candidates) > 1 {
			found = strings.Join(candidates, ", ")
		}
		return netip.Addr{}, fmt.Errorf("gossip: no unique address for other nodes: this machine has %s; set --gossip-advertise and --peer-advertise", found)
	}
	return netip.ParseAddr(candidates[0])
}
