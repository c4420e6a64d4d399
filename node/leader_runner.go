package node

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"shardway/internal/clock"
	"shardway/node/cluster"
	"shardway/node/crashdetect"
	"shardway/node/eventlog"
	"shardway/node/leaderloop"
	"shardway/shardmap"
)

// leaderRunner runs a leader loop in each term that this node leads.
type leaderRunner struct {
	view          *cluster.View
	scheduler     *clock.Scheduler
	crashDetector *crashdetect.Detector
	leaderTracker *eventlog.LeaderTracker
	elections     prometheus.Counter // elections that this node has won
	// newLoop returns the leader loop for a term.
	newLoop func(term uint64) *leaderloop.Loop
	// sendHeartbeat makes the agent send a heartbeat now, because the leader may have changed.
	sendHeartbeat func()

	// leadership is the leadership of the current term; nil means that this node does not lead. Only run
	// changes it.
	leadership atomic.Pointer[leaderloop.Leadership]
}

// run runs the leader loops until ctx ends. Raft must be open.
func (r *leaderRunner) run(ctx context.Context) {
	raft := r.view.Raft
	ticker := r.scheduler.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		r.leaderTracker.Observe(raft.Term, r.view.Leader)
		if ctx.Err() != nil {
			return
		}
		term, isLeader := raft.Leadership() // one call returns both, because a leadership belongs to one term
		if isLeader {
			r.lead(ctx, term)
			r.sendHeartbeat() // to the next leader
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-raft.Changed():
			r.sendHeartbeat()
		case <-ticker.C:
		}
	}
}

// leaderEnd describes the end of the leadership of a node in a term. hasHigherTerm is set if Raft has a higher term
// now.
func (n *Node) leaderEnd(leader string, term uint64, hasHigherTerm bool) eventlog.LeaderEnd {
	id := shardmap.NodeID(leader)
	end := eventlog.LeaderEnd{IsSelf: id == n.self, HasHigherTerm: hasHigherTerm}
	if end.IsSelf {
		end.IsStopping = n.stopRequested.Load()
		end.HasSteppedDown, end.IsDiskStalled = n.raft.SteppedDown(term), n.raft.IsIsolated()
		return end
	}
	state := n.fsm.state.Load()
	hasHandedOver := slices.Contains(state.FormerMembers(), id) && !state.IsDropped(id) && !state.Policy().IsDraining(id)
	end.IsStopping = n.view.IsLeavingOrLeft(leader) || state.Restarting(id) || hasHandedOver
	end.HeardRecently = n.raft.HasRecentContact() && n.campaigner.MissedLeader() != leader
	return end
}

// lead runs the leader loop of a term until the term is over or ctx ends.
func (r *leaderRunner) lead(ctx context.Context, term uint64) {
	loop := r.newLoop(term)
	r.elections.Inc()
	loop.Log.Info().Msg("became leader")
	r.leadership.Store(loop.Leadership)
	r.crashDetector.Recheck() //nolint:contextcheck // outlives this leadership
	r.sendHeartbeat()
	loop.Run(ctx)
	r.leadership.Store(nil)
	loop.Log.Info().Msg("leadership ended")
}
