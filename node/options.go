package node

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/diagnosis"
	"shardway/internal/clock"
	"shardway/internal/secret"
	"shardway/node/apphealth"
	"shardway/node/childproc"
	"shardway/node/disk"
	"shardway/node/writelimit"
	"shardway/proxy"
	"shardway/queue"
)

// Options contains the settings and the dependencies of a Node. The caller opens the data directory and the
// listeners, so that an occupied port is reported before anything else starts. The node closes them.
type Options struct {
	// Dir is the open data directory.
	Dir *disk.Dir
	// Version is the version of the program.
	Version string
	// Shards is the number of shards of a new cluster. If the node belongs to a cluster, Shards must be
	// the number of shards of that cluster.
	Shards int
	// Services are the services of a cluster that this node creates. Their shards are Shards in all. Empty
	// means that the cluster has one service.
	Services []ack.ServiceSpec
	// Replicas is the number of standbys of each shard, by service. A service that is missing has none.
	Replicas map[string]int
	// SpreadZones gives all zones the same number of shards while this node leads.
	SpreadZones bool
	// Weight is the node's share of the shards relative to other nodes, from 1 to 1000. Zone is the name
	// of the node's location. Pins and the choice of voters use it.
	Weight uint32
	Zone   string
	// Region is the name of the region of the node. Roles and Meta are its roles and its metadata; see package
	// nodelabel. The node announces them without interpreting them.
	Region string
	Roles  []string
	Meta   map[string]string
	// AppVersion is the operator's name for the version of the app: up to 64 printable ASCII characters. The node
	// announces it without interpreting it.
	AppVersion string
	// Gateway is set if the node has no app: it only routes requests, and owns no shards.
	Gateway bool
	// MaxVoters is the largest number of voters.
	MaxVoters int
	// BootstrapExpect is the number of new nodes that create a cluster together. The first shard map of
	// the cluster waits up to 2 s for all of them.
	BootstrapExpect int
	// FoundsAlone lets a node create a cluster of one node although Join contains addresses, if all of them are
	// known to be addresses of the node itself. BootstrapExpect must be 1.
	FoundsAlone bool
	// Join contains gossip addresses or host names of other nodes.
	Join []string
	// Endpoints contains the announced addresses by name. Other nodes connect to the address "peer".
	Endpoints map[string]string
	// RemoveDeadAfter is the time without a heartbeat after which a server is removed from Raft's
	// configuration. A voter is removed only if another server has taken over its vote, or if three voters
	// remain. Zero means never.
	RemoveDeadAfter time.Duration
	// ManualJoins makes the leader add a new server only after an operator has approved its join request. JoinTimeout
	// is how long a request waits for that. The leader's values apply.
	ManualJoins bool
	JoinTimeout time.Duration
	// RaftTimeout is how long a voter waits for the leader before it starts an election. A candidate waits as long
	// for votes, and a leader leads as long without a quorum. Zero means 500 ms.
	RaftTimeout time.Duration
	// FinalizeAfter is how long all servers must have supported a level (format version) before the leader raises
	// the level in force. The leader's value applies. Zero means no wait.
	FinalizeAfter time.Duration
	// Registry is set if the node offers the registry at its admin port. It applies the entries of the registry in any case.
	Registry bool
	// LameDuck returns how long a stopping node still accepts connections while it reports that it is not ready.
	// The node calls it when it stops. If it is nil, the node accepts connections until other nodes have taken over
	// its shards.
	LameDuck func() time.Duration
	// HoldGrace is the time within which a stopped process must return. Until then, its shards stay
	// assigned to the node, and their requests wait. Zero means that a stopping node hands its shards
	// over to other nodes.
	HoldGrace time.Duration
	// ShutdownTimeout bounds the whole stop. Zero means 30 s.
	ShutdownTimeout time.Duration

	// Webhook is the URL to which the node sends its events. It is empty if there is no webhook. The settings have
	// been checked.
	Webhook string
	// WebhookTransport replaces HTTP and HTTPS of the webhook. Only tests set it.
	WebhookTransport http.RoundTripper

	// Keys is the key configuration, in the canonical form of package keysource. It defines how the shard
	// key of a request is determined, and becomes active when all nodes have loaded it. Empty means that
	// Proxy.Keys applies.
	Keys string
	// Settings contains, by name, the settings that must be the same on all nodes. They are used only by the
	// leader, which compares all nodes.
	Settings map[string]string

	// Timing is the timing of a cluster that this node creates. An existing cluster has its own timing, in
	// its log, and this value has no effect.
	Timing ack.Timing
	// Pace contains the intervals that apply to this node only.
	Pace ack.Pace

	// App and Peer are the listeners for app traffic and for other nodes.
	App, Peer net.Listener
	// Self is the listener for requests from this machine, such as `shardway drain --local`. It may be nil.
	Self net.Listener
	// GossipBind and GossipAdvertise have the form host:port; see gossip.Options.
	GossipBind, GossipAdvertise string
	// GossipTransport replaces the sockets of gossip, and PeerDial replaces dialing over TCP. Only tests
	// set them.
	GossipTransport memberlist.NodeAwareTransport
	PeerDial        func(ctx context.Context, addr string) (net.Conn, error)

	// Secrets contains the secrets of the cluster, with which gossip is encrypted. The command rotate-secret
	// changes them. If it is nil, gossip is not encrypted.
	Secrets *secret.Store
	// WrapClient and WrapServer add TLS to connections between nodes; see peer.Options. If they are nil, the
	// connections use plain TCP.
	WrapClient func(ctx context.Context, conn net.Conn, node string) (net.Conn, error)
	WrapServer func(ctx context.Context, conn net.Conn) (net.Conn, error)

	// Queue configures the queue of waiting requests, and Proxy the proxy. The node sets the fields of
	// Proxy that connect the proxy to the node; see Node.proxyOptions.
	Queue queue.Options
	Proxy proxy.Options
	// Overdue is called with an error if a handler of an app in this process (Proxy.Handler) does not
	// return after its request was aborted, although another node may serve its shard from now on, or
	// although the node must stop. A goroutine cannot be stopped from outside, so the process must exit.
	// Overdue is called from any goroutine, and may be called several times.
	Overdue func(why error)
	// Hooks inform the app of its shards. The node serves a shard after the app has acquired it, and gives a shard
	// up after the app has released it or ReleaseTimeout has passed. ReleaseTimeout is at most
	// ack.MaxReleaseTimeout. AcquireTimeout bounds each attempt to acquire. If Hooks is nil, the app is not
	// informed, and the node serves a shard as soon as it owns it.
	Hooks Hooks
	// AliveHooks call the hook alive of each app instance, by instance. If it is empty, the node has one instance,
	// and Hooks implements writelimit.Hook if that instance has the hook.
	AliveHooks                     []writelimit.Hook
	ReleaseTimeout, AcquireTimeout time.Duration
	// Processes runs one process of the app for each key or shard. Hooks must be the same value, and Overdue must
	// be set. If it is nil, the app runs already, or in this process.
	Processes *childproc.Supervisor
	// CheckApp makes one health check of the app. It is nil for a gateway, and for an app in this process.
	CheckApp func(ctx context.Context) error
	// AppInstance returns the app instance (the name of the app process) in the response to the last CheckApp, of
	// up to disk.MaxAppInstance bytes. It returns "" if there was no response or the response contained no
	// instance. It is nil if the app reports no instances.
	AppInstance func() string
	// FurtherInstances are the app instances after the first one, which CheckApp checks. Their order is
	// that of Proxy.FurtherUpstreams. CheckApp may be nil if the first instance is not configured.
	FurtherInstances []AppInstance
	// AfterRestart is set if a shard that has left the app returns to it only after the app has restarted, unless
	// no other node can own the shard. It is for apps without Hooks.
	AfterRestart bool
	// Health contains the settings of the health check. Zero means apphealth.DefaultSettings.
	Health apphealth.Settings

	// Exposed returns the ports that are accessible without protection, and the certificates in use. It must be
	// cheap, because it is called often. It is nil if there are neither.
	Exposed func() ([]diagnosis.Exposure, []diagnosis.Certificate)

	// Clock is the clock of all timeouts of the protocol.
	Clock clock.Clock
	Log   zerolog.Logger
}

// hasHooks reports whether the app is informed of its shards. A gateway has no app.
func (o *Options) hasHooks() bool { return o.Hooks != nil && !o.Gateway }
