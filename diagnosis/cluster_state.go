package diagnosis

import "fmt"

// ClusterState is the state of the whole cluster as one node sees it.
type ClusterState uint8

// The states of a cluster. Each state takes precedence over the ones before it, except Initializing,
// which takes precedence over all others.
const (
	// Stable means that all shards have owners that serve them, and the cluster tolerates a failure.
	Stable ClusterState = iota + 1
	// SingleNode means that only one node may own shards.
	SingleNode
	// Rebalancing means that shards move to other nodes, or will.
	Rebalancing
	// Degraded means that a member has failed or most other nodes cannot reach it, that some shards are not served, or that the cluster
	// tolerates no further failure.
	Degraded
	// ClusterUnavailable means that no node serves any shard.
	ClusterUnavailable
	// Initializing means that the cluster has no shard map yet, or that the node has just started.
	Initializing
)

// ClusterStates returns all states, in the order in which a cluster usually reaches them.
func ClusterStates() []ClusterState {
	return []ClusterState{Initializing, SingleNode, Stable, Rebalancing, Degraded, ClusterUnavailable}
}

// String returns the published name, or "" for the zero value.
func (s ClusterState) String() string {
	names := [...]string{"", Stable: "stable", SingleNode: "single-node", Rebalancing: "rebalancing", Degraded: "degraded", ClusterUnavailable: "unavailable", Initializing: "initializing"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("ClusterState(%d)", uint8(s))
}

// ClusterState returns the state of the cluster and a sentence with its reason, without a full stop. It is the
// only function that decides about this state.
func (in Inputs) ClusterState() (state ClusterState, reason string) {
	if !in.HasMap {
		return Initializing, "there is no shard map yet"
	}
	if count := in.CountUnavailable(); count > 0 && count >= in.Shards {
		return ClusterUnavailable, in.unavailableReason()
	}
	if !in.HasOperated {
		return Initializing, "node " + in.Self + " has started, and waits for a leader and a lease"
	}
	if reason = in.degradedReason(); reason != "" {
		return Degraded, reason
	}
	if reason = in.rebalancingReason(); reason != "" {
		return Rebalancing, reason
	}
	if owners := in.nodeIDs(Node.mayOwnShards); len(owners) == 1 {
		return SingleNode, "only node " + owners[0] + " may own shards"
	}
	return Stable, fmt.Sprintf("all %d shards are served", in.Shards)
}

// mayOwnShards reports whether a node may own shards, now or after it has joined.
func (n Node) mayOwnShards() bool { return !n.Gateway && !n.Left }

// unavailableReason returns why no node serves any shard.
func (in Inputs) unavailableReason() string {
	if in.hasLostLeader() {
		return "there is no leader, so no node serves any shard as far as node " + in.Self + " can determine"
	}
	return "no node serves any shard"
}

// degradedReason returns why the cluster is degraded, or "" if it is not.
func (in Inputs) degradedReason() string {
	failed := in.nodeIDs(func(node Node) bool {
		return node.Failed && !node.MarkedFailed && (node.Voter || !node.Gateway) && !node.Left
	})
	if len(failed) > 0 {
		return fmt.Sprintf("%s %s %s failed", inflect(len(failed), "node", "nodes"), joinNames(failed), hasOrHave(len(failed)))
	}
	if marked := in.nodeIDs(func(node Node) bool { return node.MarkedFailed }); len(marked) > 0 {
		return fmt.Sprintf("%s %s %s marked as failed", inflect(len(marked), "node", "nodes"), joinNames(marked), isOrAre(len(marked)))
	}
	if count := in.CountUnavailable(); count > 0 {
		return fmt.Sprintf("%d of %d shards %s unavailable", count, in.Shards, isOrAre(count))
	}
	if excluded := in.nodeIDs(Node.isExcludedUnreachable); len(excluded) > 0 {
		return fmt.Sprintf("most other nodes could not connect to %s %s, which %s excluded", inflect(len(excluded), "node", "nodes"), joinNames(excluded), isOrAre(len(excluded)))
	}
	unhealthy := in.nodeIDs(func(node Node) bool { return node.App == AppFailing && !node.Drained })
	if len(unhealthy) > 0 {
		return fmt.Sprintf("the app of node %s %s unhealthy", joinNames(unhealthy), isOrAre(len(unhealthy)))
	}
	voters, present, _ := in.voterIDs()
	isPair := in.EvenVoters && len(voters) == 2
	if (len(voters) >= 3 || isPair) && len(present) <= quorum(len(voters)) {
		return fmt.Sprintf("%d of %d voters %s present, so no further failure is tolerated", len(present), len(voters), isOrAre(len(present)))
	}
	return ""
}

// rebalancingReason returns which shards move, or "" if none do.
func (in Inputs) rebalancingReason() string {
	if in.ProposedEpoch > in.Epoch {
		return fmt.Sprintf("the change of the shard map from epoch %d to %d is in progress", in.Epoch, in.ProposedEpoch)
	}
	if in.PausedMovesFor != "" {
		return ""
	}
	draining := in.nodeIDs(func(node Node) bool { return (node.Drained || node.Stopping) && node.Shards > 0 && !node.Restarting })
	if len(draining) > 0 {
		return fmt.Sprintf("node %s %s shards to move away", joinNames(draining), hasOrHave(len(draining)))
	}
	return ""
}
