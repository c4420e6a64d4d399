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

// maxAddrsPerName is the maximum number of addresses, or SRV targets, of a name that are used at a
// time. Others are used in later rounds. A name can have thousands of addresses, each of which can
// take seconds, and each target needs another lookup.
const maxAddrsPerName = 256

// sampleAddrs returns all elements, or maxAddrsPerName random elements if there are more.
func sampleAddrs[T any](elements []T) []T {
	if len(elements) <= maxAddrsPerName {
		return elements
	}
	return shuffled(elements)[:maxAddrsPerName]
}

// lookupResult has the addresses of one name, or an error. With SRV records it can have both.
type lookupResult struct {
	index int // index of the name
	addrs []netip.AddrPort
	err   error
}

// resolveAll resolves join addresses concurrently and yields each result when it is available, so that
// an unresponsive name server does not delay other results. The lookups end when the caller stops
// the iteration, or with ctx.
// It cannot resolve MulticastDNS; see Gossip.resolveJoinAddrs.
func resolveAll(ctx context.Context, resolver Resolver, join []string) iter.Seq[lookupResult] {
	return runLookups(ctx, len(join), func(ctx context.Context, i int) ([]netip.AddrPort, error) {
		return resolveJoinAddr(ctx, resolver, join[i])
	})
}

// resolveJoinAddrs is resolveAll for the join addresses of this member, which may contain MulticastDNS.
func (g *Gossip) resolveJoinAddrs(ctx context.Context, join []string) iter.Seq[lookupResult] {
	return runLookups(ctx, len(join), func(ctx context.Context, i int) ([]netip.AddrPort, error) {
		if join[i] == MulticastDNS {
			return g.lookUpMulticast(ctx)
		}
		return resolveJoinAddr(ctx, g.options.Resolver, join[i])
	})
}

// runLookups runs count lookups concurrently and yields each result when it is available. It returns
// when all lookups have ended.
func runLookups(ctx context.Context, count int, lookup func(ctx context.Context, i int) ([]netip.AddrPort, error)) iter.Seq[lookupResult] {
	return func(yield func(lookupResult) bool) {
		lookupCtx, cancel := context.WithTimeout(ctx, lookupTimeout)
		results := make(chan lookupResult, count) // never blocks a lookup
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		for i := range count {
			wg.Go(func() {
				addrs, err := lookup(lookupCtx, i)
				results <- lookupResult{i, addrs, err}
			})
		}
		for range count {
			if !yield(<-results) {
				return
			}
		}
	}
}

// resolveJoinAddr returns the addresses that a join address stands for. An IP address stands for
// itself, a name for its A and AAAA records, and a name that starts with "_" for its SRV records.
func resolveJoinAddr(ctx context.Context, resolver Resolver, join string) ([]netip.AddrPort, error) {
	host, port := splitHostPort(join)
	if strings.HasPrefix(host, "_") {
		return resolveSRV(ctx, resolver, host)
	}
	portNumber := uint64(DefaultPort)
	if port != "" {
		var err error
		if portNumber, err = strconv.ParseUint(port, 10, 16); err != nil {
			return nil, fmt.Errorf("gossip: join %q: port: %w", join, err)
		}
	}
	return resolveHost(ctx, resolver, host, uint16(portNumber))
}

// resolveHost returns up to maxAddrsPerName addresses of a host, each with the given port. host may be an IP address.
func resolveHost(ctx context.Context, resolver Resolver, host string, port uint16) ([]netip.AddrPort, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(ip.Unmap(), port)}, nil
	}
	addrs, err := resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("gossip: join: %w", err)
	}
	addrs = sampleAddrs(addrs)
	result := make([]netip.AddrPort, len(addrs))
	for i, ip := range addrs {
		result[i] = netip.AddrPortFrom(ip.Unmap(), port)
	}
	return result, nil
}

// resolveSRV returns the addresses of all targets that have one. If some records are invalid, the
// resolver of Go returns the valid ones together with an error.
func resolveSRV(ctx context.Context, resolver Resolver, name string) ([]netip.AddrPort, error) {
	_, records, err := resolver.LookupSRV(ctx, "", "", name)
	if err != nil {
		err = fmt.Errorf("gossip: join: %w", err)
	}
	records = sampleAddrs(records)
	var addrs []netip.AddrPort
	for result := range runLookups(ctx, len(records), func(ctx context.Context, i int) ([]netip.AddrPort, error) {
		return resolveHost(ctx, resolver, strings.TrimSuffix(records[i].Target, "."), records[i].Port)
	}) {
		addrs = append(addrs, result.addrs...)
		if result.err != nil {
			err = result.err
		}
	}
	addrs = sampleAddrs(addrs)
	if len(addrs) == 0 && err == nil {
		err = fmt.Errorf("gossip: join: %w", &net.DNSError{Err: "no SRV record", Name: name, IsNotFound: true})
	}
	return addrs, err
}
