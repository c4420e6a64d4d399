package gossip

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/rs/zerolog"

	"shardway/internal/clock"
)

// DefaultPort is the gossip port where an address names none.
const DefaultPort = 7946

// Resolver looks names up; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// Options are the settings of a Gossip.
type Options struct {
	// Bind is the address to listen on, "host:port"; without a host: all.
	// Port 0 takes a free one.
	Bind string
	// Advertise is the address that the others use; empty: Bind, or if that
	// names no host, the address of the route towards the first join.
	Advertise string
	// Join are addresses or DNS names (A, AAAA; SRV if they start with "_").
	Join []string
	// BootstrapExpect is how many nodes the cluster begins with: while fewer are alive Join is
	// asked every few seconds. Zero: no more than that this one is not alone.
	BootstrapExpect int
	// Tags is what the node says about itself. Tags.Node, or Name, names it.
	Tags Tags
	// Name is the name of a member that is no node; nodes leave it empty.
	Name string
	// Keep reports a member that is not to be forgotten, however long it has been
	// gone; the others are after an hour. It may not block. nil: none.
	Keep func(id string) bool
	// SnapshotPath is where the members seen are kept, for the next start; empty: nowhere.
	SnapshotPath string
	// Keys encrypt the gossip, the first one what is sent; none: plain text.
	Keys [][]byte
	// Transport replaces the sockets, for tests; Advertise must be set.
	Transport memberlist.NodeAwareTransport
	// Resolver looks up what Join names; nil: the system's.
	Resolver Resolver
	// Hostname returns the host name of the machine; nil: os.Hostname.
	Hostname func() (string, error)
	// RetryMin and RetryMax bound the pause between two joins while alone;
	// zero: 100 ms and 2 s.
	RetryMin, RetryMax time.Duration
	// Pulse is what gossip goes by, together with what else goes by it, while it beats. nil:
	// one of its own.
	Pulse *clock.Pulse
	// Log gets this package's lines and, lowered, those of the libraries.
	Log zerolog.Logger
}

func (o *Options) defaults() {
	if o.Name == "" {
		o.Name = o.Tags.Node
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.RetryMin <= 0 {
		o.RetryMin = 100 * time.Millisecond
	}
	if o.RetryMax < o.RetryMin {
		o.RetryMax = max(2*time.Second, o.RetryMin)
	}
}
