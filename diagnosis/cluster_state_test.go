package diagnosis_test

import (
	"slices"
	"testing"
	"time"

	"shardway/diagnosis"
)

// healthyInputs returns the inputs of node a about a cluster of nodes that all serve their shards.
func healthyInputs(ids ...string) diagnosis.Inputs {
	in := diagnosis.Inputs{Self: "a", Leader: "a", Shards: 12, HasMap: true, HasOperated: true, Epoch: 7, ProposedEpoch: 7, Lease: 500 * time.Millisecond}
	for _, id := range ids {
		in.Nodes = append(in.Nodes, diagnosis.Node{ID: id, Voter: true, Alive: true, App: diagnosis.AppHealthy, Shards: 12 / len(ids)})
	}
	return in
}

// Each state of the cluster has a condition, and its reason names the nodes.
func TestStateOfTheClusterNamesItsReason(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, state, reason string
		nodes               []string
		change              func(in *diagnosis.Inputs)
	}{
		{"no map", "initializing", "there is no shard map yet", []string{"a", "b", "c"}, func(in *diagnosis.Inputs) { in.HasMap, in.Epoch, in.ProposedEpoch = false, 0, 0 }},
		{"the first map is proposed", "initializing", "there is no shard map yet", []string{"a", "b", "c"}, func(in *diagnosis.Inputs) { in.HasMap, in.Epoch = false, 0 }},
		{"a process that starts", "initializing", "node a has started, and waits for a leader and a lease", []string{"a", "b", "c"}, func(in *diagnosis.Inputs) { in.HasOperated = false }},
		{"a process that starts without a quorum", "unavailable", "there is no leader, so no node serves any shard as far as node a can determine", []string{"a", "b", "c"}, func(in *diagnosis.Inputs) { in.HasOperated, in.Leader, in.NoLeaderFor = false, "", 5*time.Second }},
		{"one node", "single-node", "only node a may own shards", []string{"a"}, func(*diagnosis.Inputs) {}},
		{"one node and a gateway", "single-node", "only node a may own shards", []string{"a", "b"}, func(in *diagnosis.Inputs) { in.Nodes[1].Gateway = true }},
		{"the second node has left", "single-node", "only node a may own shards", []string{"a", "b"}, func(in *diagnosis.Inputs) { in.Nodes[1].Left, in.Nodes[1].Alive = true, false }},
		{"three nodes", "stable", "all 12 shards are served", []string{"a", "b", "c"}, func(*diagnosis.Inputs) {}},
		{"two nodes at first", "stable", "all 12 shards are served", []string{"a", "b"}, func(*diagnosis.Inputs) {}},
		{"two voters", "degraded", "2 of 2 voters are present, so no further failure is tolerated", []string{"a", "b"}, func(in *diagnosis.Inputs) { in.EvenVoters = true }},
		{"a proposal", "rebalancing", "the change of the shard map from epoch 7 to 8 is in progress", []string{"a", "b", "c"}, func(in *diagnosis.Inputs) { in.ProposedEpoch = 8 }},
		{"a drain", "rebalancing", "node c has shards to move away", []string{"a", "b", "c"}, func(in *diagnosis.Inputs) { in.Nodes[2].Drained = true }},
		{"a drain during a pause", "stable", "all 12 shards are served", []string{"a", "b", "c"}, func(in *diagnosis.Inputs) { in.Nodes[2].Drained, in.PausedMovesFor = true, "5m" }},
		{"a finished drain", "stable", "all 12 shards are served", []string{"a", "b", "c"}, func(in *diagnosis.Inputs) { in.Nodes[2].Drained, in.Nodes[2].Shards = true, 0 }},
		{"a suspect node among five", "stable", "all 12 shards are served", []string{"a", "b", "c", "d", "e"}, func(in *diagnosis.Inputs) { in.Nodes[4].Alive = false }},
		{"a suspect node among three", "degraded", "2 of 3 voters are present, so no further failure is tolerated", []string{"a", "b", "c"}, func(in *diagnosis.Inputs) { in.Nodes[2].Alive = false }},
		{"a failed node", "degraded", "node c has failed", []string{"a", "b", "c", "d", "e"}, func(in *diagnosis.Inputs) { in.Nodes[2].Failed = true }},
		{"a node that is marked as failed", "degraded", "node c is marked as failed", []string{"a", "b", "c", "d", "e"}, func(in *diagnosis.Inputs) { in.Nodes[2].Failed, in.Nodes[2].MarkedFailed = true, true }},
		{"a node that most nodes cannot reach", "degraded", "most other nodes could not connect to node c, which is excluded", []string{"a", "b", "c", "d", "e"}, func(in *diagnosis.Inputs) { in.Nodes[2].Unreachable, in.Nodes[2].Shards = true, 0 }},
		{"failed nodes while shards move", "degraded", "nodes b and c have failed", []string{"a", "b", "c", "d", "e"}, func(in *diagnosis.Inputs) { in.Nodes[1].Failed, in.Nodes[2].Failed, in.ProposedEpoch = true, true, 8 }},
		{"a failed gateway without a vote", "stable", "all 12 shards are served", []string{"a", "b", "c", "d"}, func(in *diagnosis.Inputs) { in.Nodes[3] = diagnosis.Node{ID: "d", Gateway: true, Failed: true} }},
		{"orphaned shards", "degraded", "3 of 12 shards are unavailable", []string{"a", "b", "c"}, func(in *diagnosis.Inputs) { in.Orphaned = 3 }},
		{"an unhealthy app", "degraded", "the app of node b is unhealthy", []string{"a", "b", "c"}, func(in *diagnosis.Inputs) { in.Nodes[1].App = diagnosis.AppFailing }},
		{"an unhealthy app of a drained node", "stable", "all 12 shards are served", []string{"a", "b", "c"}, func(in *diagnosis.Inputs) {
			in.Nodes[1].App, in.Nodes[1].Drained, in.Nodes[1].Shards = diagnosis.AppFailing, true, 0
		}},
		{"an election", "stable", "all 12 shards are served", []string{"a", "b", "c"}, func(in *diagnosis.Inputs) { in.Leader, in.NoLeaderFor = "", 300*time.Millisecond }},
		{"an election among distant nodes", "stable", "all 12 shards are served", []string{"a", "b", "c"}, func(in *diagnosis.Inputs) { in.Leader, in.NoLeaderFor, in.RaftTimeout = "", 5*time.Second, time.Second }},
		{"no quorum among distant nodes at first", "degraded", "1 of 3 voters is present, so no further failure is tolerated", []string{"a", "b", "c"}, func(in *diagnosis.Inputs) {
			in.Leader, in.NoLeaderFor, in.RaftTimeout, in.Nodes[1].Alive, in.Nodes[2].Alive = "", 1500*time.Millisecond, time.Second, false, false
		}},
		{"no quorum among distant nodes", "unavailable", "there is no leader, so no node serves any shard as far as node a can determine", []string{"a", "b", "c"}, func(in *diagnosis.Inputs) {
			in.Leader, in.NoLeaderFor, in.RaftTimeout, in.Nodes[1].Alive, in.Nodes[2].Alive = "", 2*time.Second, time.Second, false, false
		}},
		{"no leader", "unavailable", "there is no leader, so no node serves any shard as far as node a can determine", []string{"a", "b", "c"}, func(in *diagnosis.Inputs) { in.Leader, in.NoLeaderFor = "", 5*time.Second }},
		{"a stalled disk of the leader", "unavailable", "there is no leader, so no node serves any shard as far as node a can determine", []string{"a", "b", "c"}, func(in *diagnosis.Inputs) { in.LeaderUnknown = true }},
		{"only orphans", "unavailable", "no node serves any shard", []string{"a", "b", "c"}, func(in *diagnosis.Inputs) { in.Orphaned = 12 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			in := healthyInputs(test.nodes...)
			test.change(&in)
			state, reason := in.ClusterState()
			if state.String() != test.state || reason != test.reason {
				t.Errorf("state %s: %s, want %s: %s", state, reason, test.state, test.reason)
			}
			if !slices.Contains(diagnosis.ClusterStates(), state) {
				t.Errorf("%s is not in ClusterStates", state)
			}
			unavailable := in.CountUnavailable()
			if all := unavailable == in.Shards; all != (state == diagnosis.ClusterUnavailable || !in.HasMap) {
				t.Errorf("state %s, and %d of %d shards are unavailable", state, unavailable, in.Shards)
			}
		})
	}
}
