package node

import (
	"context"
	"net"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/diagnosis"
	"shardway/internal/clock"
	"shardway/internal/secret"
	"shardway/node/apphealth"
	"shardway/node/disk"
	"shardway/proxy"
	"shardway/queue"
)

const (
	roleNode    = "node"
	roleGateway = "gateway"
)

// Options is what a Node is made from. Listeners are opened by the caller, so
// that a taken port is its first word; the node closes them.
type Options struct {
	// Dir is the open data directory; the node closes it.
	Dir *disk.Dir
	// Version is the program's.
	Version string
	// Shards is the number of shards with which a cluster is born, and that an
	// existing one must have.
	Shards int
	// Weight is the node's share, 1 to 1000; Zone its place, for people, pins
	// and votes.
	Weight uint32
	Zone   string
	// AppVersion is what the operator calls the version of the app: up to 64 printable
	// ASCII characters. It is told to all nodes and means nothing to them.
	AppVersion string
	// Gateway is true for a node without an app: it routes and owns nothing.
	Gateway bool
	// MaxVoters is how many nodes vote at most.
	MaxVoters int
	// BootstrapExpect is how many fresh nodes found a cluster together; its first map waits for
	// them, 2 s at most.
	BootstrapExpect int
	// FoundsAlone lets a node found a cluster of one although Join contains addresses, if
	// every one of them is certainly the node's own. BootstrapExpect must be 1.
	FoundsAlone bool
	// Join are gossip addresses or names of other nodes.
	Join []string
	// Endpoints are announced by name; "peer" is where the others find this node.
	Endpoints map[string]string
	// RemoveDeadAfter removes a server that was not heard for so long, a voter only
	// when a spare has its vote or three are left; zero: never.
	RemoveDeadAfter time.Duration
	// FinalizeAfter is how long all servers must have known a level before it is raised,
	// by the leader's; zero: at once.
	FinalizeAfter time.Duration
	// LameDuck is asked when the node stops: for how long it goes on taking
	// connections, not ready any more. Nil: until its shards are elsewhere.
	LameDuck func() time.Duration
	// HoldGrace is within what time a process that is told to stop comes back: it goes
	// with its shards, which wait for it. Zero: it hands them over.
	HoldGrace time.Duration
	// ShutdownTimeout bounds the whole stop; zero means 30 s.
	ShutdownTimeout time.Duration

	// Keys is the key configuration, in the canonical form of package keysource. It becomes
	// active once all nodes have loaded it; empty: requests are keyed by Proxy.Keys.
	Keys string
	// Settings are those that must be the same on all nodes, by name. The leader compares
	// them; nothing else depends on them.
	Settings map[string]string

	// Timing is with what this node founds a cluster. One that it belongs to has its
	// own, whatever this says.
	Timing ack.Timing
	// Pace is this node's own.
	Pace ack.Pace

	// App and Peer are the listeners for app traffic and for other nodes.
	App, Peer net.Listener
	// Self is where the machine itself may ask the node to leave; nil: nowhere.
	Self net.Listener
	// GossipBind and GossipAdvertise are host:port; see gossip.Options.
	GossipBind, GossipAdvertise string
	// GossipTransport replaces gossip's sockets, and PeerDial TCP, in tests.
	GossipTransport memberlist.NodeAwareTransport
	PeerDial        func(ctx context.Context, addr string) (net.Conn, error)

	// Secrets holds the cluster's secrets: gossip is encrypted by them, and rotate
	// changes them. Nil: gossip is plain.
	Secrets *secret.Store
	// WrapClient and WrapServer put TLS beneath everything between nodes; see
	// peer.Options. Nil: plain.
	WrapClient func(ctx context.Context, conn net.Conn, node string) (net.Conn, error)
	WrapServer func(ctx context.Context, conn net.Conn) (net.Conn, error)

	// Queue bounds what waits; Proxy is the proxy's part. The node fills in
	// Proxy's Node, Cluster, Room, QueueWait and Probe.
	Queue queue.Options
	Proxy proxy.Options
	// Overdue, of an app in this process (Proxy.Handler), is told, from any goroutine,
	// that a handler goes on though its shard may be served elsewhere from now on, or
	// though the node is to end: the process has to, for nobody can stop a handler. It
	// may be told so again.
	Overdue func(why error)
	// Hooks tell the app which shards it holds: none is served before the app has
	// acquired it, and none moves before it has released it or ReleaseTimeout, at most
	// ack.MaxReleaseTimeout, has passed. AcquireTimeout bounds each attempt to acquire.
	// Nil: the app is not told, and a shard is served as soon as it is this node's.
	Hooks                          Hooks
	ReleaseTimeout, AcquireTimeout time.Duration
	// CheckApp checks the app once; nil with a Gateway, and for an app in this process.
	CheckApp func(ctx context.Context) error
	// AppInstance returns how the app named itself in its response to the last CheckApp, in
	// up to disk.MaxAppInstance bytes; empty without a response or a name. Nil means that the
	// app has no name.
	AppInstance func() string
	// AfterRestart means that a shard which has left the app returns to it only after the app
	// has restarted, unless no other node can own the shard. It is for apps without Hooks.
	AfterRestart bool
	// Health says how often, and what counts; zero means apphealth.DefaultSettings.
	Health apphealth.Settings

	// Exposed tells what lets in whoever reaches it, and the certificates in use; nil:
	// nothing does, and there are none. It is asked often.
	Exposed func() ([]diagnosis.Exposure, []diagnosis.Certificate)

	// Clock is the one clock of the protocol.
	Clock clock.Clock
	Log   zerolog.Logger
}
