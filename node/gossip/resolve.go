package gossip

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

const lookupTimeout = 5 * time.Second

// resolve returns what a join address stands for: itself, the A and AAAA
// records of a name, or the SRV records of one that starts with "_".
func resolve(ctx context.Context, r Resolver, join string) ([]netip.AddrPort, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	host, port := splitHostPort(join)
	if strings.HasPrefix(host, "_") {
		return resolveSRV(ctx, r, host)
	}
	n := uint64(DefaultPort)
	if port != "" {
		var err error
		if n, err = strconv.ParseUint(port, 10, 16); err != nil {
			return nil, fmt.Errorf("gossip: join %q: port: %w", join, err)
		}
	}
	return resolveHost(ctx, r, host, uint16(n))
}

func resolveHost(ctx context.Context, r Resolver, host string, port uint16) ([]netip.AddrPort, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(ip.Unmap(), port)}, nil
	}
	all, err := r.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("gossip: join: %w", err)
	}
	out := make([]netip.AddrPort, len(all))
	for i, ip := range all {
		out[i] = netip.AddrPortFrom(ip.Unmap(), port)
	}
	return out, nil
}

func resolveSRV(ctx context.Context, r Resolver, name string) ([]netip.AddrPort, error) {
	_, records, err := r.LookupSRV(ctx, "", "", name)
	if err != nil {
		return nil, fmt.Errorf("gossip: join: %w", err)
	}
	var out []netip.AddrPort
	for _, s := range records {
		all, lerr := resolveHost(ctx, r, strings.TrimSuffix(s.Target, "."), s.Port)
		if lerr != nil {
			err = lerr
			continue
		}
		out = append(out, all...)
	}
	if len(out) == 0 && err == nil {
		err = &net.DNSError{Err: "no SRV record", Name: name, IsNotFound: true}
	}
	if len(out) > 0 {
		err = nil
	}
	return out, err
}
