package leaderloop

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/event"
	"shardway/internal/clock"
	"shardway/node/cluster"
	"shardway/node/control"
	"shardway/node/eventlog"
	"shardway/node/membership"
	"shardway/node/registrystore"
	"shardway/shardmap"
)

// Options contains the settings and the dependencies of a leader loop.
type Options struct {
	// Self and Server are the IDs of this node and of its Raft server.
	Self   shardmap.NodeID
	Server string
	// Shards, BootstrapExpect and Timing apply to a cluster that this leader creates.
	Shards, BootstrapExpect int
	Timing                  ack.Timing
	// Replicas is the number of standbys of each shard, by service.
	Replicas map[string]int
	// SpreadZones gives all zones the same number of shards.
	SpreadZones bool
	Services    []ack.ServiceSpec // empty means that the new cluster has one service
	// Pace contains the intervals of this node.
	Pace ack.Pace
	// Keys returns the key configuration that this node has loaded.
	Keys func() string

	// View is what this node knows of the cluster. Its Raft server must have started.
	View *cluster.View
	// Client sends requests to other nodes.
	Client    *control.Client
	Clock     clock.Clock
	Scheduler *clock.Scheduler
	// StateChanged is notified when the log has a newer state.
	StateChanged <-chan struct{}
	// Background runs the goroutines that wait for Raft or for other nodes.
	Background *sync.WaitGroup
	// Reconciler contains the settings of the reconciler, without those that belong to one term.
	Reconciler membership.ReconcilerOptions

	// OnRaftHeartbeats is called when this leader has sent Raft heartbeats. The node then also sends its own
	// heartbeat if that is nearly due. It must not block, and may be nil.
	OnRaftHeartbeats func()

	// IdleShards and IdleInStage return the shards of this node that can move now, in a gradual drain and in
	// a staged map change.
	IdleShards  func() IdleReport
	IdleInStage func(StagedIdleRequest) IdleReport
	// CheckNode makes this node check whether it can connect to another node. It must not block.
	CheckNode func(node string)
	// AdoptCluster stores the ID of the cluster in the data directory. The loop calls it from a goroutine of
	// Background.
	AdoptCluster func(*ack.State)

	// Registry is the replicated registry of this node.
	Registry *registrystore.Store

	Events  *event.Ring
	Changes *eventlog.MapChangeRecorder
	Metrics Metrics
	Log     zerolog.Logger
}

// Metrics contains the metrics of what a node does as leader.
type Metrics struct {
	Proposals     *prometheus.CounterVec // map changes, by reason
	Exclusions    *prometheus.CounterVec // nodes that were excluded from the map, by reason
	Takeovers     *prometheus.CounterVec // owners whose shards were taken over, by the rule that allowed it
	CommitSeconds prometheus.Histogram   // time until a log entry is committed
}
