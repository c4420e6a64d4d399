package adminapi

import (
	"context"
	"time"

	"shardway/admin/api"
	"shardway/node/leaderloop"
)

// nodeState returns the state of this node, using the names of docs/internals/protocol.md. All parts of a status are
// computed from the same snapshot, so that they are consistent.
func (a *API) nodeState(s snapshot) string {
	replicated := s.replicated
	switch {
	case a.options.IsStopping():
		return "stopping"
	case a.options.Agent.IsLeaving():
		return "draining"
	case a.options.IsStopRequested():
		return "stopping" // asked to stop without leaving: the node restarts in place and keeps its shards
	}
	isGateway, isDrained, hasLeader := a.options.Gateway, a.options.View.IsDrained(), s.leader != ""
	isInMap := replicated.Proposed().IsMember(a.options.Self)
	if replicated.Committed().Epoch() == 0 { // no map yet
		if hasLeader {
			return "joining"
		}
		return "starting"
	}
	if !isGateway && a.options.View.IsMarkedFailed() { // also without a lease, as in the list of nodes
		return "failed"
	}
	if !isInMap && a.isAppUnhealthy() { // excluded because of its app
		return "unhealthy"
	}
	if mustBeInMap := !isGateway && !isDrained; mustBeInMap && !isInMap {
		return "joining"
	}
	if isGateway && !hasLeader || !isGateway && !s.hasLease() {
		return "electing"
	}
	switch {
	case isDrained && replicated.Committed().ShardCount(a.options.Self) > 0:
		return "draining"
	case isDrained:
		return "drained"
	case replicated.HasOpenProposal():
		return "rebalancing"
	}
	return "operational"
}

// isAppUnhealthy reports whether the app fails its health checks. Before the first check it returns false.
func (a *API) isAppUnhealthy() bool {
	return a.options.Health != nil && a.options.Health.Checked() && !a.options.Health.Healthy()
}

// Status returns this node's view of itself and of the cluster.
func (a *API) Status() api.Status {
	// Start the requests to the leader first, because they take longest.
	type leaderState struct {
		state     leaderloop.State
		isCurrent bool
	}
	leadership := make(chan leaderState, 1)
	go func() { // ends after leaderloop.ViewTimeout
		state, isCurrent := a.options.Leader.LeaderState(context.Background())
		leadership <- leaderState{state, isCurrent}
	}()
	views := a.options.Leader.Views(context.Background())
	leader := <-leadership
	s := a.snapshot(views)
	replicated := s.replicated
	cluster, _ := a.options.Dir.Cluster()
	queue := a.options.Queue.Stats()
	var timing *api.TimingState
	if latest := a.options.View.State(); latest.Bootstrapped() {
		state := leaderloop.TimingState(latest)
		timing = &state
	}
	findings := a.options.Findings().update(s)
	clusterState, clusterReason := findings.Inputs.ClusterState()
	status := api.Status{
		Node: string(a.options.Self), Boot: a.options.Dir.Boot(), Cluster: cluster, Version: a.options.Version,
		State: a.nodeState(s), Role: a.role(s), Leader: s.leader, Term: s.term,
		ClusterState: clusterState.String(), ClusterReason: clusterReason,
		Epoch: uint64(replicated.Committed().Epoch()), Proposed: uint64(replicated.Proposed().Epoch()),
		LeaseMS: leaseMilliseconds(s.leaseLeft), UptimeS: int64(time.Since(a.options.Started()).Seconds()),
		Shards: api.ShardCounts{
			Total: s.shards, Owned: replicated.Committed().ShardCount(a.options.Self), Held: a.options.HeldShardCount(),
			Moving: MovingShards(replicated), Orphaned: replicated.OrphanCount(), Unavailable: findings.Inputs.CountUnavailable(),
		},
		Services:      serviceCounts(replicated, a.options.Self),
		Timing:        timing,
		FormatVersion: uint8(a.options.View.State().FormatVersion()),
		Queue:         api.QueueCounts{Queued: queue.Waiting, Bytes: queue.Bytes},
		Sockets:       a.WebSockets.localCounts(),
		Nodes:         s.nodes,
		Keys:          keysState(replicated, loadedKeys{string(a.options.Self), a.options.LoadedKeys()}, views),
		Findings:      findings.List,
	}
	if s.leader != "" && leader.isCurrent {
		since, lease := time.Now().Add(-leader.state.Duration).UTC().Truncate(time.Millisecond), leader.state.LeaseLeft.Milliseconds()
		status.LeaderSince, status.LeaderLeaseMS = &since, &lease
	}
	return status
}

// role returns the role of this node in Raft, or "gateway".
func (a *API) role(s snapshot) string {
	switch {
	case s.isLeader:
		return "leader"
	case a.options.Gateway:
		return "gateway"
	case a.options.View.Raft.IsCandidate():
		return "candidate"
	}
	return "follower"
}
