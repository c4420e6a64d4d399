package shutdown

import (
	"context"
	"time"

	"shardway/node/control"
)

const (
	// goodbyeTimeout is how long a goodbye may take if the app has no shards to release.
	goodbyeTimeout = 250 * time.Millisecond
	// maxLeaveReserve bounds leaveReserve. leaveRaftTimeout bounds the request to leave Raft.
	maxLeaveReserve  = 2 * time.Second
	leaveRaftTimeout = 2 * time.Second
)

// Leave hands over the shards, waits for in-flight requests, transfers the leadership and sends a goodbye,
// all within Options.Timeout. If failed ends earlier, the node has failed: it sends no goodbye, like a killed
// process.
func (s *Sequence) Leave(failed context.Context) {
	ctx, cancel := context.WithTimeout(failed, s.options.Timeout)
	defer cancel()
	startedAt := time.Now()
	s.options.Log.Info().Msg("draining")
	s.options.Agent.Leave()
	s.options.Proxy.SetDraining(true)
	s.beforeGoodbye(ctx, startedAt, func(ctx context.Context) { waitUntil(ctx, s.isHandedOver) })
	s.waitForLameDuck(ctx, startedAt)
	if failed.Err() != nil {
		return
	}
	s.beforeGoodbye(ctx, startedAt, func(ctx context.Context) {
		if err := s.options.ShutProxy(ctx); err != nil {
			s.options.Log.Warn().Err(err).Msg("in-flight requests aborted")
		}
	})
	if failed.Err() != nil {
		return
	}
	s.transferLeadership(ctx)
	goodbyeAt := s.options.Agent.LastAnswer()
	s.options.Agent.SayGoodbye()
	goodbyeCtx, stop := context.WithTimeout(ctx, s.goodbyeDuration())
	waitUntil(goodbyeCtx, func() bool { return s.options.Agent.HasStopped() && s.options.Agent.LastAnswer() > goodbyeAt })
	stop()
	gossipCtx, stop := context.WithDeadline(ctx, startedAt.Add(s.options.Timeout-s.leaveReserve()/2))
	if err := s.options.Gossip.Leave(gossipCtx); err != nil {
		s.options.Log.Debug().Err(err).Msg("gossip leave timed out")
	}
	stop()
	// After gossip, because the leader adds each node that gossip lists as alive, and would add this one again.
	s.leaveRaft(ctx)
}

// beforeGoodbye calls step with the part of Options.Timeout that is not reserved for the goodbye and the
// steps after it.
func (s *Sequence) beforeGoodbye(ctx context.Context, startedAt time.Time, step func(context.Context)) {
	ctx, stop := context.WithDeadline(ctx, startedAt.Add(max(s.options.Timeout-s.goodbyeDuration()-s.leaveReserve(), 0)))
	defer stop()
	step(ctx)
}

// goodbyeDuration returns how long the goodbye may take. Before it, the app releases the shards that no
// other node has taken.
func (s *Sequence) goodbyeDuration() time.Duration {
	if !s.options.State().Committed().IsMember(s.options.Self) {
		return goodbyeTimeout
	}
	return goodbyeTimeout + s.options.ReleaseTimeout
}

// leaveReserve is the part of Options.Timeout that Leave reserves for leaving gossip and Raft, half of it
// for each. It is a tenth of the time that the handover of shards does not need, up to maxLeaveReserve.
// Without it, a node whose clients stay connected until the timeout stays a voter.
func (s *Sequence) leaveReserve() time.Duration {
	notForHandover := s.options.Timeout - s.options.DrainTimeout - s.options.ReleaseTimeout
	return min(maxLeaveReserve, max(notForHandover, 0)/10)
}

// isHandedOver reports whether the handover has ended: no map contains this node, or no other node takes over its
// shards.
func (s *Sequence) isHandedOver() bool {
	state := s.options.Router.State()
	isInMap := state.Committed().IsMember(s.options.Self) || state.Proposed().IsMember(s.options.Self)
	return !isInMap || s.NoTakeoverReason() != ""
}

// leaveRaft asks the leader to remove the server of this node from Raft's configuration. It only logs an
// error, because the node can also stop while it is a member.
func (s *Sequence) leaveRaft(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveRaftTimeout)
	defer cancel()
	leader := s.options.View.Raft.Leader()
	if leader == "" || leader == string(s.options.Self) {
		return
	}
	if err := s.options.Client.Call(ctx, leader, control.Request{Kind: control.Leave, Server: s.options.Server}, nil); err != nil {
		s.options.Log.Debug().Err(err).Msg("server not removed from Raft configuration")
	}
}
