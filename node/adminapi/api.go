package adminapi

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/internal/clock"
	"shardway/node/apphealth"
	"shardway/node/cluster"
	"shardway/node/control"
	"shardway/node/disk"
	"shardway/node/leaderloop"
	"shardway/node/registrystore"
	"shardway/node/router"
	"shardway/proxy"
	"shardway/queue"
	"shardway/shardmap"
)

// Agent is this node's side of the lease protocol.
type Agent interface {
	// IsLeaving reports whether this node gives up all its shards.
	IsLeaving() bool
	// Leave makes this node give up all its shards. It returns false if the node already did.
	Leave() (started bool)
	// HasDuplicate reports whether the leader refuses this node because of another process with its ID.
	HasDuplicate() bool
	// Owned returns the shards that the app holds, without how long it may write.
	Owned(ctx context.Context) (api.OwnedList, error)
	// Unreleased counts the shards that moved without a release since the last drain of this node began, and
	// returns the error of the first of them.
	Unreleased() (count int, firstError string)
	// DrainBlockReason returns why a safe drain keeps all remaining shards on this node. remaining is the number
	// of these shards. The result is empty if some of them can still move.
	DrainBlockReason(remaining int) string
}

// Options contains the parts of a node that the admin API reads.
type Options struct {
	Self    shardmap.NodeID
	Dir     *disk.Dir
	Version string
	Shards  int
	Gateway bool
	// Replicas is the number of standbys of each shard, by service.
	Replicas map[string]int
	// Registry is the replicated registry of this node.
	Registry *registrystore.Store
	// Timing is the timing in the flags of this node.
	Timing ack.Timing
	// ManualJoins and JoinTimeout are those in the flags of this node.
	ManualJoins bool
	JoinTimeout time.Duration
	// Settings contains the settings that must be the same on all nodes, by name.
	Settings map[string]string
	// PeerDial replaces dialing over TCP; nil means TCP.
	PeerDial func(ctx context.Context, addr string) (net.Conn, error)
	Clock    clock.Clock
	Log      zerolog.Logger

	View   *cluster.View
	Leader *leaderloop.Client
	// Client sends requests to other nodes.
	Client *control.Client
	Router *router.Router
	Proxy  *proxy.Server
	Queue  *queue.Queue
	// Health checks the app; nil for a gateway.
	Health *apphealth.Group
	Agent  Agent

	// Findings returns the result of the last run of the diagnosis.
	Findings func() Findings
	// HeldShardCount returns the number of shards that the app holds with the Shardway-Hold header.
	HeldShardCount func() int
	// LoadedKeys returns the digest of this node's loaded key configuration.
	LoadedKeys func() uint64
	// Quarantined lists the quarantined keys of a policy.
	Quarantined func(*ack.Policy) []api.QuarantinedKey
	// HashKeyID returns the identifier of the hash key in use.
	HashKeyID func() uint32
	// WriteTimeLeft returns how long an app without contact to this node may write.
	WriteTimeLeft func(ctx context.Context) time.Duration
	// NoTakeoverReason returns why no other node will take over this node's shards, or an empty string if one may.
	NoTakeoverReason func() string
	// Started returns the time at which the node started. IsStopRequested reports whether the node was asked to
	// stop, and IsStopping whether it has handed over its shards or has failed.
	Started                     func() time.Time
	IsStopRequested, IsStopping func() bool
}

// API serves the admin API of one node. Its methods may be called from any goroutine.
type API struct {
	options  Options
	settings atomic.Pointer[map[string]string] // set by ApplySettings; nil means Options.Settings

	standbyCache standbyCache

	// The following parts answer requests that query all nodes.
	Checkups   *Checkups
	Load       *Load
	Running    *Running
	WebSockets *WebSockets
}

// New returns the admin API of a node. The parts in options need not be complete until the first request.
func New(options Options) *API {
	nodes := otherNodes{self: string(options.Self), view: options.View, client: options.Client}
	a := &API{
		options: options,
		Load: &Load{
			nodes: nodes, proxy: options.Proxy, cache: control.NewCached[api.HotList](),
			state: options.Router.State,
		},
		Running: &Running{
			nodes: nodes, version: options.Version, router: options.Router, proxy: options.Proxy, queue: options.Queue, agent: options.Agent,
			heldShardCount: options.HeldShardCount, cache: control.NewCached[api.RunningList](),
		},
		WebSockets: &WebSockets{nodes: nodes, proxy: options.Proxy, log: options.Log, state: options.Router.State, cache: control.NewCached[api.SocketList]()},
	}
	a.Checkups = &Checkups{
		nodes: nodes, clock: options.Clock, localReport: a.LocalReport,
		withoutPorts: newCheckupCache(), withPorts: newCheckupCache(),
	}
	return a
}

// Plan returns the moves that the next shard map would contain.
func (a *API) Plan(ctx context.Context) (api.Plan, error) { return a.options.Leader.Plan(ctx) }
