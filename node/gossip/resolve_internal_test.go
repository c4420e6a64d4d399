package gossip

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
)

// manyAddrsResolver is a resolver that returns very many addresses for every name.
type manyAddrsResolver struct{ asked atomic.Int32 }

func (c *manyAddrsResolver) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	c.asked.Add(1)
	all := make([]netip.Addr, 4000)
	for i := range all {
		all[i] = netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
	}
	return all, nil
}

func (c *manyAddrsResolver) LookupSRV(context.Context, string, string, string) (string, []*net.SRV, error) {
	all := make([]*net.SRV, 1500)
	for i := range all {
		all[i] = &net.SRV{Target: fmt.Sprintf("n%d.example.", i), Port: 7946}
	}
	return "", all, nil
}

// A name is used with a few of its addresses at a time, and with others each time. Once, a name with thousands of addresses, each of which
// may be dead, delayed all other names for hours, and all targets of an SRV name were resolved at once.
func TestNameStandsForSomeAtATime(t *testing.T) {
	for _, name := range []string{"nodes.example", "_gossip._tcp.example"} {
		r := &manyAddrsResolver{}
		seen := map[netip.AddrPort]bool{}
		for range 8 {
			addrs, err := resolveJoinAddr(t.Context(), r, name)
			if err != nil || len(addrs) != maxAddrsPerName {
				t.Fatalf("%s: %d addresses, %v", name, len(addrs), err)
			}
			for _, a := range addrs {
				seen[a] = true
			}
		}
		if len(seen) <= 2*maxAddrsPerName || r.asked.Load() > 8*maxAddrsPerName {
			t.Errorf("%s: %d addresses in all by %d lookups", name, len(seen), r.asked.Load())
		}
	}
}
