package gossip

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"shardway/node/mdns"
)

// multicastRoute is the address of multicast DNS. The route to it selects the local network.
const multicastRoute = "224.0.0.251:5353"

// usesMulticastDNS reports whether a join address is MulticastDNS.
func (o *Options) usesMulticastDNS() bool { return slices.Contains(o.JoinAddrs, MulticastDNS) }

// respondToMulticast responds to multicast DNS queries until ctx ends, if this member is a node that uses multicast DNS.
func (g *Gossip) respondToMulticast(ctx context.Context) {
	if !g.options.usesMulticastDNS() || g.options.Tags.Node == "" || g.options.Transport != nil {
		return
	}
	responder := &mdns.Responder{Addr: g.selfAddr, Keys: g.keyring.GetKeys, Log: g.log}
	responder.Run(ctx)
}

// lookUpMulticast returns the addresses of the other nodes that respond to a multicast DNS query.
func (g *Gossip) lookUpMulticast(ctx context.Context) ([]netip.AddrPort, error) {
	addrs, err := g.options.LookupMulticast(ctx, g.selfAddr.Addr(), g.keyring.GetKeys())
	addrs = slices.DeleteFunc(addrs, func(addr netip.AddrPort) bool { return addr == g.selfAddr })
	if len(addrs) == 0 && err == nil {
		err = errors.New("no other node with this secret responds to multicast DNS")
	}
	if err != nil {
		err = fmt.Errorf("gossip: join %s: %w", MulticastDNS, err)
	}
	return addrs, err
}

// routeTo returns a join address whose route leads to the nodes of a join address.
func routeTo(join string) string {
	if join == MulticastDNS {
		return multicastRoute
	}
	return join
}
