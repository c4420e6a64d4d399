package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"

	"shardway/node/logs"
)

// config returns the settings of Serf. Gossip is a fallback for the heartbeats: it detects
// failures as fast as a busy machine allows without false positives.
func (g *Gossip) config(ctx context.Context) (*serf.Config, error) {
	tags, err := g.announcedTags().encode()
	if err != nil {
		return nil, err
	}
	mc, err := g.memberlist(ctx)
	if err != nil {
		return nil, err
	}
	c := serf.DefaultConfig()
	c.NodeName = g.o.Name
	c.Tags = tags
	c.EventCh = g.events
	c.MemberlistConfig = mc
	c.Merge = g.merge
	c.EnableNameConflictResolution = false
	c.DisableCoordinates = true
	c.BroadcastTimeout = time.Second
	c.LeavePropagateDelay = 300 * time.Millisecond
	c.ReconnectInterval = 2 * time.Second
	c.ReconnectTimeout = forgetAfter
	c.TombstoneTimeout = forgetAfter
	c.ReconnectTimeoutOverride = g.retention
	c.ReapInterval = 5 * time.Second
	c.LogOutput = nil
	c.Logger = logs.Std(g.o.Log, "serf")
	return c, dropOtherMessages(c)
}

// memberlist returns the settings of memberlist.
func (g *Gossip) memberlist(ctx context.Context) (*memberlist.Config, error) {
	mc := memberlist.DefaultLANConfig()
	mc.ProbeInterval = probeInterval
	mc.ProbeTimeout = 200 * time.Millisecond
	mc.SuspicionMult = 4
	mc.GossipInterval = 0 // disabled: see startTicks
	mc.PushPullInterval = 0
	mc.TCPTimeout = 2 * time.Second // limits a join of an address that drops packets
	mc.DeadNodeReclaimTime = 5 * time.Second
	mc.EnableCompression = false // costs a table of 64 KB per packet and rarely makes one shorter
	mc.LogOutput = nil
	mc.Logger = logs.Std(g.o.Log, "memberlist")
	mc.Keyring = g.keyring
	return mc, g.addresses(ctx, mc)
}

// addresses sets the bind address and the advertised address.
func (g *Gossip) addresses(ctx context.Context, mc *memberlist.Config) error {
	if g.o.Transport != nil {
		g.limitStreams(mc, g.o.Transport)
		adv, err := netip.ParseAddrPort(g.o.Advertise)
		if err != nil {
			return fmt.Errorf("gossip: advertise %q: %w", g.o.Advertise, err)
		}
		mc.AdvertiseAddr, mc.AdvertisePort = adv.Addr().String(), int(adv.Port())
		return nil
	}
	host, port, err := bindAddr(g.o.Bind)
	if err != nil {
		return err
	}
	mc.BindAddr, mc.BindPort = host.String(), port
	adv, err := Advertise(ctx, g.o.Bind, g.o.Advertise, g.o.Join, g.o.Resolver)
	if err != nil {
		return err
	}
	s, err := openSockets(host, port, mc.Logger)
	if err != nil {
		return err
	}
	g.limitStreams(mc, s)
	mc.AdvertiseAddr, mc.AdvertisePort = adv.Addr().String(), int(adv.Port())
	if port == 0 {
		mc.BindPort = s.port()
		mc.AdvertisePort = mc.BindPort
	}
	g.bindAddr = netip.AddrPortFrom(host, uint16(s.port()))
	return nil
}

// limitStreams sets the transport of memberlist, wrapped in a streamLimiter.
func (g *Gossip) limitStreams(mc *memberlist.Config, t memberlist.NodeAwareTransport) {
	g.limiter = newStreamLimiter(t, g.log)
	mc.Transport = g.limiter
}

// isAddrInUse reports whether another socket uses the port.
func isAddrInUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }

// bindAddr parses "host:port". An empty host means all addresses, of IPv4 and of IPv6 if the
// machine has IPv6.
func bindAddr(s string) (netip.Addr, int, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return netip.Addr{}, 0, fmt.Errorf("gossip: listen address %q: want host:port: %w", s, err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.Addr{}, 0, fmt.Errorf("gossip: listen address %q: port: %w", s, err)
	}
	switch host {
	case "":
		if hasIPv6() {
			return netip.IPv6Unspecified(), int(n), nil
		}
		return netip.IPv4Unspecified(), int(n), nil
	case "localhost":
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), int(n), nil
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}, 0, fmt.Errorf("gossip: listen address %q: want an IP address: %w", s, err)
	}
	return ip, int(n), nil
}

// hasIPv6 reports whether the machine supports IPv6.
func hasIPv6() bool {
	c, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6unspecified})
	if err != nil {
		return false
	}
	return c.Close() == nil
}
