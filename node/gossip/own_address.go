package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// JoinsOnlyItself returns nil if every address of Join certainly belongs to this node and to no
// other node. Otherwise the error is the reason why an address may belong to another node.
//
// A node that joins only itself may bootstrap a cluster, so the result must not change later. A
// name that resolves to this node now may resolve to another node later, and a load balancer
// selects a different node each time. Only these addresses are certain:
//   - the IP address and the port that this node advertises
//   - a loopback address with the port on which this node listens
//   - "localhost" and the host name of the machine, if all their addresses are certain
func (g *Gossip) JoinsOnlyItself(ctx context.Context) error {
	if len(g.options.JoinAddrs) == 0 {
		return errors.New("gossip: no join address")
	}
	for _, join := range g.options.JoinAddrs {
		if err := g.checkOwnAddr(ctx, join); err != nil {
			return err
		}
	}
	return nil
}

// checkOwnAddr returns nil if a join address certainly belongs to this node, and otherwise the reason
// why it may belong to another node.
func (g *Gossip) checkOwnAddr(ctx context.Context, join string) error {
	if join == MulticastDNS {
		return &ambiguousAddrError{join}
	}
	host, _ := splitHostPort(join)
	if _, err := netip.ParseAddr(host); err != nil && host != "localhost" {
		if name, err := g.options.lookUpHostname(); err != nil || !strings.EqualFold(host, name) {
			return &ambiguousAddrError{join}
		}
	}
	for result := range resolveAll(ctx, g.options.Resolver, []string{join}) {
		if result.err != nil {
			return result.err
		}
		if slices.ContainsFunc(result.addrs, func(addr netip.AddrPort) bool { return !g.isOwnAddr(addr) }) {
			return &ambiguousAddrError{join}
		}
	}
	return nil
}

// isOwnAddr reports whether no other node can have this address.
func (g *Gossip) isOwnAddr(addr netip.AddrPort) bool {
	if addr == g.selfAddr {
		return !onLoopbackInterface(addr.Addr())
	}
	return g.bindAddr.IsValid() && addr.Addr().IsLoopback() && addr.Port() == g.bindAddr.Port() &&
		(g.bindAddr.Addr().IsUnspecified() || g.bindAddr.Addr() == addr.Addr())
}

// onLoopbackInterface reports whether an address that is not a loopback address belongs to a
// loopback interface. Load balancers are set up in this way: many machines have the same address.
func onLoopbackInterface(ip netip.Addr) bool {
	if ip.IsLoopback() {
		return false
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return true
	}
	for _, iface := range interfaces {
		if iface.Flags&net.FlagLoopback == 0 {
			continue
		}
		addrs, err := iface.Addrs()
		if err != nil {
			return true
		}
		for _, addr := range addrs {
			if prefix, err := netip.ParsePrefix(addr.String()); err == nil && prefix.Addr().Unmap() == ip {
				return true
			}
		}
	}
	return false
}

// ambiguousAddrError is the error of a join address that may belong to another node.
type ambiguousAddrError struct{ join string }

func (e *ambiguousAddrError) Error() string {
	return fmt.Sprintf("gossip: %s is not certainly this node's own address", e.join)
}

// reason returns the reason for a list of join attempts.
func (*ambiguousAddrError) reason() string {
	return "it led to this node itself, and may lead to another node the next time"
}

// selfAttempt returns the result of a join address that led only to this node.
func (g *Gossip) selfAttempt(ctx context.Context, join string) JoinAttempt {
	if err, ok := errors.AsType[*ambiguousAddrError](g.checkOwnAddr(ctx, join)); ok {
		return JoinAttempt{join, err}
	}
	return JoinAttempt{join, errSelf}
}

// lookUpHostname returns the host name of the machine.
func (o *Options) lookUpHostname() (string, error) {
	if o.Hostname != nil {
		return o.Hostname()
	}
	return os.Hostname()
}
