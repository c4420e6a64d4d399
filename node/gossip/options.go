package gossip

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/rs/zerolog"

	"shardway/internal/clock"
	"shardway/node/mdns"
)

// DefaultPort is the gossip port of an address without a port.
const DefaultPort = 7946

// MulticastDNS is a join address that finds the nodes of the local network by multicast DNS.
const MulticastDNS = "mdns"

// Resolver resolves names. *net.Resolver implements it.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// Options configure a Gossip.
type Options struct {
	// BindAddr is the listen address, "host:port". An empty host means all addresses, and port 0 selects a
	// free port.
	BindAddr string
	// AdvertiseAddr is the address that other nodes use. See Advertise for the default.
	AdvertiseAddr string
	// JoinAddrs has addresses or DNS names (A and AAAA records; SRV records for a name that starts with "_"). The word
	// MulticastDNS stands for the nodes of the local network, and needs Keys.
	JoinAddrs []string
	// BootstrapExpect is the initial number of nodes of the cluster. While fewer nodes are alive, the
	// join addresses are joined every few seconds. Zero means that two nodes are enough.
	BootstrapExpect int
	// Tags is the data that the node announces. Tags.Node, or otherwise Name, is its name.
	Tags Tags
	// Name is the name of a member that is not a node. It is empty for nodes.
	Name string
	// RetainForever reports whether a node has a server in Raft's configuration. Such a node is never forgotten
	// after it has left or failed, and no member that is not a node can take its name. Other members are forgotten
	// after an hour. It must not block. nil means that no member is kept.
	RetainForever func(id string) bool
	// SnapshotPath is the file that stores the seen members for the next start. Empty means no file.
	SnapshotPath string
	// Keys encrypt the gossip. The first key encrypts sent messages. Without keys, gossip is plain text.
	Keys [][]byte
	// Transport replaces the sockets in tests. Advertise must be set then.
	Transport memberlist.NodeAwareTransport
	// Resolver resolves the names in Join. nil means the resolver of the system.
	Resolver Resolver
	// LookupMulticast returns the addresses for MulticastDNS. self is the address of this member. nil means mdns.Lookup.
	LookupMulticast func(ctx context.Context, self netip.Addr, keys [][]byte) ([]netip.AddrPort, error)
	// Hostname returns the host name of the machine. nil means os.Hostname.
	Hostname func() (string, error)
	// RetryMin and RetryMax limit the pause between two join rounds while this node is alone. The
	// defaults are 100 ms and 2 s.
	RetryMin, RetryMax time.Duration
	// Scheduler is the shared ticker of the process. nil means a separate ticker.
	Scheduler *clock.Scheduler
	// Log receives the messages of this package and, at a lower level, those of the libraries.
	Log zerolog.Logger
}

// setDefaults sets the default values of fields that are zero.
func (o *Options) setDefaults() {
	if o.Name == "" {
		o.Name = o.Tags.Node
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.LookupMulticast == nil {
		o.LookupMulticast = mdns.Lookup
	}
	if o.RetryMin <= 0 {
		o.RetryMin = 100 * time.Millisecond
	}
	if o.RetryMax < o.RetryMin {
		o.RetryMax = max(2*time.Second, o.RetryMin)
	}
}
