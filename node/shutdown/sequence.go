package shutdown

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/internal/clock"
	"shardway/node/adminapi"
	"shardway/node/cluster"
	"shardway/node/control"
	"shardway/node/gossip"
	"shardway/node/leaderloop"
	"shardway/node/router"
	"shardway/proxy"
	"shardway/shardmap"
)

const (
	// pollEvery is the interval at which waitUntil polls its condition.
	pollEvery = 10 * time.Millisecond
	// newLeaderTimeout is how long a leader that stops waits for the next leader.
	newLeaderTimeout = time.Second
)

// Agent is this node's side of the lease protocol.
type Agent interface {
	// Leave makes this node give up all its shards. It returns false if the node already did.
	Leave() (started bool)
	// SayGoodbye makes this node stop all requests, and then send a goodbye.
	SayGoodbye()
	// HasStopped reports whether this node admits and runs no more requests.
	HasStopped() bool
	// LastAnswer returns when the last accepted response of the leader to a heartbeat arrived, by the clock of
	// the node. Zero means never.
	LastAnswer() time.Duration
	// Boot returns the boot number that this node uses.
	Boot() uint64
	// HasNoTakeover reports whether no other node is left to take the shards of this leaving node.
	HasNoTakeover() bool
}

// Options contains the settings of a Sequence, and the parts of the node that it uses.
type Options struct {
	Self shardmap.NodeID
	// Server is the Raft server ID of this node.
	Server string
	// Timeout bounds all steps together.
	Timeout time.Duration
	// LameDuck returns how long a stopping node still accepts connections while it reports that it is not ready. If
	// it is nil, the node accepts connections until other nodes have taken over its shards.
	LameDuck func() time.Duration
	// Grace is the time within which a node that restarts in place must return.
	Grace time.Duration
	// DrainTimeout is how long requests of a shard may run before the shard moves. ReleaseTimeout is how
	// long the app may then take to release its shards; zero means that the app is not informed.
	DrainTimeout, ReleaseTimeout time.Duration

	Clock  clock.Clock
	Log    zerolog.Logger
	Agent  Agent
	View   *cluster.View
	Gossip *gossip.Gossip
	Router *router.Router
	Proxy  *proxy.Server
	Client *control.Client
	// State returns the newest state of the log.
	State func() *ack.State
	// Leadership returns the leadership of this node, or nil if this node does not lead.
	Leadership func() *leaderloop.Leadership
	// ShutProxy shuts the proxy down, and returns when all its requests have ended. It aborts them when
	// ctx ends.
	ShutProxy func(ctx context.Context) error
}

// Sequence performs the steps of an orderly stop.
type Sequence struct{ options Options }

// New returns a Sequence.
func New(options Options) *Sequence { return &Sequence{options} }

// waitForLameDuck waits until the lame-duck period of the stopping node is over, or until ctx ends. startedAt is
// the start of the period, at which the node stopped being ready. During the period the node still accepts
// connections, so that load balancers have time to detect that it is not ready.
func (s *Sequence) waitForLameDuck(ctx context.Context, startedAt time.Time) {
	if s.options.LameDuck == nil {
		return
	}
	timer := time.NewTimer(s.options.LameDuck() - time.Since(startedAt))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// transferLeadership transfers the leadership to another voter, if this node leads. It waits up to
// newLeaderTimeout for the new leader.
func (s *Sequence) transferLeadership(ctx context.Context) {
	raft := s.options.View.Raft
	if !raft.IsLeader() {
		return
	}
	if err := leaderloop.Transfer(ctx, s.options.View, s.options.Leadership()); err != nil {
		s.options.Log.Debug().Err(err).Msg("leadership transfer failed")
	}
	leaderCtx, stop := context.WithTimeout(ctx, newLeaderTimeout)
	waitUntil(leaderCtx, func() bool { l := raft.Leader(); return l != "" && l != string(s.options.Self) })
	stop()
}

// NoTakeoverReason returns why no other node takes over the shards of this draining or stopping node, or "" if
// another node may take them over.
func (s *Sequence) NoTakeoverReason() string {
	sinceLastAnswer := s.options.Clock.Precise() - s.options.Agent.LastAnswer()
	switch {
	case s.options.View.IsLastNode():
		return "there is no other node"
	case s.options.Agent.HasNoTakeover():
		return adminapi.NoOtherOwner
	case sinceLastAnswer > 2*s.options.View.Timing().DeadAfter:
		return "no contact to a leader"
	}
	return ""
}

// waitUntil polls condition until it returns true or ctx ends.
func waitUntil(ctx context.Context, condition func() bool) {
	t := time.NewTicker(pollEvery)
	defer t.Stop()
	for !condition() {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}
