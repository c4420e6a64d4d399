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

// lookupTimeout bounds the lookup of one join address, with all that an SRV record
// leads to.
const lookupTimeout = 5 * time.Second

// mostOfName is how many addresses, or targets, of one name are taken at a time: others
// the next time. A name may stand for thousands, each of which may take seconds, while
// the node looks at no other name; and each target is a lookup of its own.
const maxPerName = 256

// some returns all, or so many of them at random.
func sample[T any](all []T) []T {
	if len(all) <= maxPerName {
		return all
	}
	return shuffled(all)[:maxPerName]
}

// found is what one name stood for: addresses, or why there are none. With SRV
// records it may be both.
type lookupResult struct {
	index int // among those that were looked up together
	addrs []netip.AddrPort
	err   error
}

// lookUp resolves join addresses side by side, and gives what it finds as it comes:
// a name server that does not answer holds up nothing that is known without it.
// Whoever has seen enough stops; the lookups end then, or with ctx.
func lookUp(ctx context.Context, r Resolver, join []string) iter.Seq[lookupResult] {
	return lookUpAll(ctx, len(join), func(ctx context.Context, i int) ([]netip.AddrPort, error) {
		return resolve(ctx, r, join[i])
	})
}

// sideBySide runs n lookups together, and gives what each found as it comes. It
// returns when all have ended.
func lookUpAll(ctx context.Context, n int, look func(ctx context.Context, i int) ([]netip.AddrPort, error)) iter.Seq[lookupResult] {
	return func(yield func(lookupResult) bool) {
		looking, cancel := context.WithTimeout(ctx, lookupTimeout)
		all := make(chan lookupResult, n) // room for each: none waits to be heard
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		for i := range n {
			wg.Go(func() {
				addrs, err := look(looking, i)
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

// resolve returns what a join address stands for: itself, the A and AAAA
// records of a name, or the SRV records of one that starts with "_".
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

// resolveSRV returns the addresses of all targets that have one. Of an answer with
// records that cannot be used Go's resolver gives the others beside an error.
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
