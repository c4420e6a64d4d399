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

// serfConfig returns the settings of Serf. Gossip is a fallback for the heartbeats: it detects
// failures as fast as a busy machine allows without false positives.
func (g *Gossip) serfConfig(ctx context.Context) (*serf.Config, error) {
	tags, err := g.announcedTags().encode()
	if err != nil {
		return nil, err
	}
	memberlistConfig, err := g.memberlistConfig(ctx)
	if err != nil {
		return nil, err
	}
	config := serf.DefaultConfig()
	config.NodeName = g.options.Name
	config.Tags = tags
	config.EventCh = g.events
	config.MemberlistConfig = memberlistConfig
	config.Merge = g.mergeDelegate
	config.EnableNameConflictResolution = false
	config.DisableCoordinates = true
	config.BroadcastTimeout = time.Second
	config.LeavePropagateDelay = 300 * time.Millisecond
	config.ReconnectInterval = 2 * time.Second
	config.ReconnectTimeout = forgetAfter
	config.TombstoneTimeout = forgetAfter
	config.ReconnectTimeoutOverride = g.retention
	config.ReapInterval = 5 * time.Second
	config.LogOutput = nil
	config.Logger = logs.Std(g.options.Log, "serf")
	return config, dropNonMembershipMessages(config)
}

// memberlistConfig returns the settings of memberlist.
func (g *Gossip) memberlistConfig(ctx context.Context) (*memberlist.Config, error) {
	config := memberlist.DefaultLANConfig()
	config.ProbeInterval = probeInterval
	config.ProbeTimeout = 200 * time.Millisecond
	config.SuspicionMult = 4
	config.GossipInterval = 0 // disabled: see startPeriodicWork
	config.PushPullInterval = 0
	config.TCPTimeout = 2 * time.Second // limits a join of an address that drops packets
	config.DeadNodeReclaimTime = 5 * time.Second
	config.EnableCompression = false // costs a table of 64 KB per packet and rarely makes one shorter
	config.LogOutput = nil
	config.Logger = logs.Std(g.options.Log, "memberlist")
	config.Keyring = g.keyring
	return config, g.configureAddresses(ctx, config)
}

// configureAddresses sets the bind address and the advertised address.
func (g *Gossip) configureAddresses(ctx context.Context, config *memberlist.Config) error {
	if g.options.Transport != nil {
		g.limitStreams(config, g.options.Transport)
		advertised, err := netip.ParseAddrPort(g.options.AdvertiseAddr)
		if err != nil {
			return fmt.Errorf("gossip: advertise %q: %w", g.options.AdvertiseAddr, err)
		}
		config.AdvertiseAddr, config.AdvertisePort = advertised.Addr().String(), int(advertised.Port())
		return nil
	}
	host, port, err := parseBindAddr(g.options.BindAddr)
	if err != nil {
		return err
	}
	config.BindAddr, config.BindPort = host.String(), port
	advertised, err := Advertise(ctx, g.options.BindAddr, g.options.AdvertiseAddr, g.options.JoinAddrs, g.options.Resolver)
	if err != nil {
		return err
	}
	sockets, err := openSockets(host, port, config.Logger)
	if err != nil {
		return err
	}
	g.limitStreams(config, sockets)
	config.AdvertiseAddr, config.AdvertisePort = advertised.Addr().String(), int(advertised.Port())
	if port == 0 {
		config.BindPort = sockets.port()
		config.AdvertisePort = config.BindPort
	}
	g.bindAddr = netip.AddrPortFrom(host, uint16(sockets.port()))
	return nil
}

// limitStreams sets the transport of memberlist, wrapped in a streamLimiter.
func (g *Gossip) limitStreams(config *memberlist.Config, transport memberlist.NodeAwareTransport) {
	g.limiter = newStreamLimiter(transport, g.log)
	config.Transport = g.limiter
}

// isAddrInUse reports whether another socket uses the port.
func isAddrInUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }

// parseBindAddr parses "host:port". An empty host means all addresses, of IPv4 and of IPv6 if the
// machine has IPv6.
func parseBindAddr(text string) (netip.Addr, int, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return netip.Addr{}, 0, fmt.Errorf("gossip: listen address %q: want host:port: %w", text, err)
	}
	portNumber, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.Addr{}, 0, fmt.Errorf("gossip: listen address %q: port: %w", text, err)
	}
	switch host {
	case "":
		if hasIPv6() {
			return netip.IPv6Unspecified(), int(portNumber), nil
		}
		return netip.IPv4Unspecified(), int(portNumber), nil
	case "localhost":
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), int(portNumber), nil
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}, 0, fmt.Errorf("gossip: listen address %q: want an IP address: %w", text, err)
	}
	return ip, int(portNumber), nil
}

// hasIPv6 reports whether the machine supports IPv6.
func hasIPv6() bool {
	conn, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6unspecified})
	if err != nil {
		return false
	}
	return conn.Close() == nil
}
