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
	if len(g.o.Join) == 0 {
		return errors.New("gossip: no join address")
	}
	for _, join := range g.o.Join {
		if err := g.checkOwn(ctx, join); err != nil {
			return err
		}
	}
	return nil
}

// checkOwn returns nil if a join address certainly belongs to this node, and otherwise the reason
// why it may belong to another node.
func (g *Gossip) checkOwn(ctx context.Context, join string) error {
	host, _ := splitHostPort(join)
	if _, err := netip.ParseAddr(host); err != nil && host != "localhost" {
		if name, err := g.o.hostname(); err != nil || !strings.EqualFold(host, name) {
			return &uncertainError{join}
		}
	}
	for f := range lookUp(ctx, g.o.Resolver, []string{join}) {
		if f.err != nil {
			return f.err
		}
		if slices.ContainsFunc(f.addrs, func(a netip.AddrPort) bool { return !g.isOwn(a) }) {
			return &uncertainError{join}
		}
	}
	return nil
}

// isOwn reports whether no other node can have this address.
func (g *Gossip) isOwn(addr netip.AddrPort) bool {
	if addr == g.self {
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
	all, err := net.Interfaces()
	if err != nil {
		return true
	}
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			return true
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap() == ip {
				return true
			}
		}
	}
	return false
}

// uncertainError is the error of a join address that may belong to another node.
type uncertainError struct{ join string }

func (e *uncertainError) Error() string {
	return fmt.Sprintf("gossip: %s is not certainly this node's own address", e.join)
}

// reason returns the reason for a list of join attempts.
func (*uncertainError) reason() string {
	return "it led to this node itself, and may lead to another node the next time"
}

// selfAttempt returns the result of a join address that led only to this node.
func (g *Gossip) selfAttempt(ctx context.Context, join string) Attempt {
	if err, ok := errors.AsType[*uncertainError](g.checkOwn(ctx, join)); ok {
		return Attempt{join, err}
	}
	return Attempt{join, errItself}
}

// hostname returns the host name of the machine.
func (o *Options) hostname() (string, error) {
	if o.Hostname != nil {
		return o.Hostname()
	}
	return os.Hostname()
}
