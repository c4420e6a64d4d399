package gossip

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Advertise returns the address that others should use for a port bound at
// bind: advertise if it is given; else bind itself if it names a host; else the
// address of the route towards the first join; else the machine's only address.
// Where several would do it refuses to guess and names them. Without a port in
// advertise it is bind's. Other ports of the node may use it too.
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

// towards returns the address of the route towards the first join address that has
// one; loopback only if there is no other, for a machine's own name may stand for that
// alone, and nobody else is reached there.
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

// route returns the address that packets towards to would come from. Nothing is
// sent: connecting a UDP socket only asks the kernel for the route.
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

// onlyAddress returns the machine's one address that others can reach.
func singleAddress(v4 bool) (netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("gossip: addresses of this machine: %w", err)
	}
	return selectAddress(all, v4)
}

// pick returns the one address among all that is neither loopback nor
// link-local. IPv4 goes before IPv6, because most machines have both.
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
