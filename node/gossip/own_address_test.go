package gossip_test

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"shardway/node/gossip"
)

// Each case is a kind of join address. Each %d is the port of the node.
func TestOnlyCertainAddressesAreTheNodesOwn(t *testing.T) {
	t.Parallel()
	own, other := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("10.0.0.9")
	dns := &names{ips: map[string][]netip.Addr{"localhost": {own}, "machine": {own}, "service": {own}, "both": {own, other}}}
	for _, c := range []struct {
		join     string
		hostname string
		own      bool
	}{
		{join: "127.0.0.1:%d", own: true},
		{join: "localhost:%d", own: true},
		{join: "machine:%d", hostname: "machine", own: true},
		{join: "MACHINE:%d", hostname: "machine", own: false}, // the resolver of this test does not have it
		{join: "127.0.0.1:%d,localhost:%d", own: true},
		{join: "service:%d", hostname: "machine"},         // it may resolve to another node tomorrow
		{join: "both:%d", hostname: "both"},               // one address may belong to another node
		{join: "127.0.0.2:%d"},                            // another node may listen there
		{join: "127.0.0.1:1"},                             // another port
		{join: "127.0.0.1:%d,127.0.0.1:1"},                // the second one may belong to another node
		{join: "127.0.0.1:%d,service:%d", hostname: "m"},  // the second one may belong to another node
		{join: "missing:%d", hostname: "missing"},         // the name does not resolve
		{join: "_gossip._tcp.local", hostname: "machine"}, // SRV records
		{join: "10.0.0.9:%d"},                             // another machine
		{join: "[fe80::1]:%d"},                            // each machine has such an address
		{join: "0.0.0.0:%d"},                              // not an address of a node
		{join: ""},                                        // no address at all
	} {
		t.Run(c.join, func(t *testing.T) {
			t.Parallel()
			port := freePort(t)
			o := gossip.Options{
				Tags: node("a"), BindAddr: fmt.Sprintf("127.0.0.1:%d", port), Resolver: dns,
				Hostname: func() (string, error) { return c.hostname, nil },
			}
			if c.join != "" {
				o.JoinAddrs = strings.Split(strings.ReplaceAll(c.join, "%d", strconv.Itoa(port)), ",")
			}
			g, stop := real(t, o)
			defer stop()
			if err := g.JoinsOnlyItself(t.Context()); (err == nil) != c.own {
				t.Errorf("JoinsOnlyItself() = %v, want own %t", err, c.own)
			}
		})
	}
}

// freePort returns a port that is not in use at the moment.
func freePort(t *testing.T) int {
	t.Helper()
	g, stop := real(t, gossip.Options{Tags: node("free")})
	defer stop()
	return int(g.Addr().Port())
}
