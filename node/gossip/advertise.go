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
// port, the port of bind is used. Other ports of the node may use this function as well.
func Advertise(ctx context.Context, bind, advertise string, join []string, r Resolver) (netip.AddrPort, error) {
	host, port := splitHostPort(bind)
	if advertise != "" {
		h, p := splitHostPort(advertise)
		host = h
		if p != "" {
			port = p
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("gossip: address %q: port: %w", bind+advertise, err)
	}
	ip, err := advertiseHost(ctx, host, join, r)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)), nil
}

// advertiseHost returns the IP address for Advertise. host may be empty.
func advertiseHost(ctx context.Context, host string, join []string, r Resolver) (netip.Addr, error) {
	if host == "localhost" {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case err == nil && !ip.IsUnspecified():
		return ip, nil
	case err != nil && host != "":
		all, err := r.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return netip.Addr{}, fmt.Errorf("gossip: advertise address %q: %w", host, err)
		}
		return all[0], nil
	}
	if local, ok := routeToJoin(ctx, join, r); ok {
		return local, nil
	}
	return singleAddress(ip.Is4())
}

// routeToJoin returns the local address of the route to the first join address that has a route.
// It returns a loopback address only if there is no other: the host name of the machine may
// resolve to loopback, where no other machine can reach it.
func routeToJoin(ctx context.Context, join []string, r Resolver) (local netip.Addr, ok bool) {
	all := make([][]netip.AddrPort, len(join))
	for f := range lookUp(ctx, r, join) {
		all[f.index] = f.addrs
	}
	for _, addrs := range all {
		if len(addrs) == 0 {
			continue
		}
		way, err := localAddrFor(ctx, addrs[0])
		if err != nil {
			continue
		}
		if !way.IsLoopback() {
			return way, true
		}
		if !ok {
			local, ok = way, true
		}
	}
	return local, ok
}

// localAddrFor returns the source address of packets to an address. It sends nothing: connecting a
// UDP socket only queries the route.
func localAddrFor(ctx context.Context, to netip.AddrPort) (netip.Addr, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp", to.String())
	if err != nil {
		return netip.Addr{}, err
	}
	defer func() { _ = c.Close() }()
	local, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return netip.Addr{}, err
	}
	return local.Addr().Unmap(), nil
}

// singleAddress returns the only address of the machine that other machines can reach.
func singleAddress(v4 bool) (netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("gossip: addresses of this machine: %w", err)
	}
	return selectAddress(all, v4)
}

// selectAddress returns the only address that is neither loopback nor link-local. IPv4 is
// preferred, because most machines have both.
func selectAddress(all []net.Addr, v4only bool) (netip.Addr, error) {
	var four, six []string
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || !p.Addr().IsGlobalUnicast() {
			continue
		}
		if p.Addr().Is4() {
			four = append(four, p.Addr().String())
		} else {
			six = append(six, p.Addr().String())
		}
	}
	use := four
	if len(four) == 0 && !v4only {
		use = six
	}
	if len(use) != 1 {
		have := "none"
		if len(use) > 1 {
			have = strings.Join(use, ", ")
		}
		return netip.Addr{}, fmt.Errorf("gossip: which address should the others use? This machine has %s: say it with --gossip-advertise and --peer-advertise", have)
	}
	return netip.ParseAddr(use[0])
}
