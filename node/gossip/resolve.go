package gossip

import (
	"context"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

// lookupTimeout limits the lookup of one join address, including the targets of SRV records.
const lookupTimeout = 5 * time.Second

// maxPerName is the maximum number of addresses, or SRV targets, of a name that are used at a
// time. Others are used in later rounds. A name can have thousands of addresses, each of which can
// take seconds, and each target needs another lookup.
const maxPerName = 256

// sample returns all elements, or maxPerName random ones.
func sample[T any](all []T) []T {
	if len(all) <= maxPerName {
		return all
	}
	return shuffled(all)[:maxPerName]
}

// lookupResult has the addresses of one name, or an error. With SRV records it can have both.
type lookupResult struct {
	index int // index of the name
	addrs []netip.AddrPort
	err   error
}

// lookUp resolves join addresses concurrently and yields each result when it is available, so that
// an unresponsive name server does not delay other results. The lookups end when the caller stops
// the iteration, or with ctx.
func lookUp(ctx context.Context, r Resolver, join []string) iter.Seq[lookupResult] {
	return lookUpAll(ctx, len(join), func(ctx context.Context, i int) ([]netip.AddrPort, error) {
		return resolve(ctx, r, join[i])
	})
}

// lookUpAll runs n lookups concurrently and yields each result when it is available. It returns
// when all lookups have ended.
func lookUpAll(ctx context.Context, n int, look func(ctx context.Context, i int) ([]netip.AddrPort, error)) iter.Seq[lookupResult] {
	return func(yield func(lookupResult) bool) {
		lookupCtx, cancel := context.WithTimeout(ctx, lookupTimeout)
		all := make(chan lookupResult, n) // never blocks a lookup
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		for i := range n {
			wg.Go(func() {
				addrs, err := look(lookupCtx, i)
				all <- lookupResult{i, addrs, err}
			})
		}
		for range n {
			if !yield(<-all) {
				return
			}
		}
	}
}

// resolve returns the addresses of a join address: itself, the A and AAAA records of a name, or
// the SRV records of a name that starts with "_".
func resolve(ctx context.Context, r Resolver, join string) ([]netip.AddrPort, error) {
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

// resolveHost returns up to maxPerName addresses of a host, each with the given port. host may be an IP address.
func resolveHost(ctx context.Context, r Resolver, host string, port uint16) ([]netip.AddrPort, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(ip.Unmap(), port)}, nil
	}
	all, err := r.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("gossip: join: %w", err)
	}
	all = sample(all)
	out := make([]netip.AddrPort, len(all))
	for i, ip := range all {
		out[i] = netip.AddrPortFrom(ip.Unmap(), port)
	}
	return out, nil
}

// resolveSRV returns the addresses of all targets that have one. If some records are invalid, the
// resolver of Go returns the valid ones together with an error.
func resolveSRV(ctx context.Context, r Resolver, name string) ([]netip.AddrPort, error) {
	_, records, err := r.LookupSRV(ctx, "", "", name)
	if err != nil {
		err = fmt.Errorf("gossip: join: %w", err)
	}
	records = sample(records)
	var out []netip.AddrPort
	for f := range lookUpAll(ctx, len(records), func(ctx context.Context, i int) ([]netip.AddrPort, error) {
		return resolveHost(ctx, r, strings.TrimSuffix(records[i].Target, "."), records[i].Port)
	}) {
		out = append(out, f.addrs...)
		if f.err != nil {
			err = f.err
		}
	}
	out = sample(out)
	if len(out) == 0 && err == nil {
		err = fmt.Errorf("gossip: join: %w", &net.DNSError{Err: "no SRV record", Name: name, IsNotFound: true})
	}
	return out, err
}
