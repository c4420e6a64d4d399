//go:build linux

package cluster

import (
	"fmt"
	"testing"
)

// maxVoters is the default of --max-voters.
const maxVoters = 5

// AwaitServing waits until the running nodes agree on one leader and on one committed map, hold
// leases, and vote. The map must be balanced, without orphaned shards, and contain only these
// nodes. It waits for the votes because the loss of one node could otherwise stop the others.
func (c *Cluster) AwaitServing(tb testing.TB) Map {
	tb.Helper()
	return c.AwaitServedBy(tb, c.Running()...)
}

// AwaitServedBy is like AwaitServing, for the given nodes only. The other nodes may be paused or
// disconnected.
func (c *Cluster) AwaitServedBy(tb testing.TB, nodes ...*Node) Map {
	tb.Helper()
	shardMap := c.AwaitShards(tb, nodes...)
	Await(tb, fmt.Sprintf("%d nodes vote", len(nodes)), func() error { return c.checkVoters(tb, nodes) })
	return shardMap
}

// CheckServing returns nil if the given nodes meet the conditions of AwaitServedBy now. Otherwise
// the error names the condition that is not met.
func (c *Cluster) CheckServing(tb testing.TB, nodes ...*Node) (Map, error) {
	tb.Helper()
	shardMap, err := c.checkShards(tb, nodes)
	if err == nil {
		err = c.checkVoters(tb, nodes)
	}
	return shardMap, err
}

// checkVoters returns an error unless all nodes vote, or as many of them as may vote.
func (c *Cluster) checkVoters(tb testing.TB, nodes []*Node) error {
	tb.Helper()
	status, err := nodes[0].Status(tb.Context())
	if err != nil {
		return err
	}
	voters := 0
	for _, node := range nodes {
		if status.Member(node.ID).Voter {
			voters++
		}
	}
	if voters < min(len(nodes), maxVoters) {
		return fmt.Errorf("%d voters: %+v", voters, status.Nodes)
	}
	return nil
}

// AwaitShards waits until the given nodes serve every shard. They need not vote.
func (c *Cluster) AwaitShards(tb testing.TB, nodes ...*Node) Map {
	tb.Helper()
	var shardMap Map
	Await(tb, fmt.Sprintf("%d nodes serve", len(nodes)), func() (err error) {
		shardMap, err = c.checkShards(tb, nodes)
		return err
	})
	return shardMap
}

// checkShards returns the committed map, or an error unless the given nodes are operational, follow
// one leader, and share all shards of one map.
func (c *Cluster) checkShards(tb testing.TB, nodes []*Node) (Map, error) {
	tb.Helper()
	var leader string
	var shardMap Map
	for i, node := range nodes {
		status, err := node.Status(tb.Context())
		if err != nil {
			return shardMap, err
		}
		if !status.servesCommittedMap() {
			return shardMap, fmt.Errorf("node %s: %s, lease %d ms, epoch %d, proposed %d", node.ID, status.State, status.LeaseMS, status.Epoch, status.Proposed)
		}
		if i == 0 {
			leader = status.Leader
			if shardMap, err = node.Map(tb.Context()); err != nil {
				return shardMap, err
			}
		}
		if status.Leader == "" || status.Leader != leader {
			return shardMap, fmt.Errorf("node %s follows %q, %s follows %q", node.ID, status.Leader, nodes[0].ID, leader)
		}
		if status.Epoch != shardMap.Epoch {
			return shardMap, fmt.Errorf("node %s is at epoch %d, %s at %d", node.ID, status.Epoch, nodes[0].ID, shardMap.Epoch)
		}
	}
	if c.opts.Services != nil {
		return shardMap, c.checkServices(shardMap, nodes)
	}
	return shardMap, checkDistribution(shardMap, nodes)
}

// servesCommittedMap reports whether the node is operational, holds a lease, and no map change is
// in progress.
func (s Status) servesCommittedMap() bool {
	hasMap := s.Epoch != 0 && s.Epoch == s.Proposed
	return hasMap && s.State == "operational" && s.LeaseMS > 0
}

// checkDistribution returns an error unless the map is balanced, and its owners are exactly the given
// nodes.
func checkDistribution(shardMap Map, nodes []*Node) error {
	counts := shardMap.Counts()
	if !shardMap.IsBalanced() || len(counts) != min(len(nodes), shardMap.Shards) {
		return fmt.Errorf("the map has counts %v for %d nodes", counts, len(nodes))
	}
	for _, node := range nodes {
		if counts[node.ID] == 0 {
			return fmt.Errorf("node %s owns no shards: %v", node.ID, counts)
		}
	}
	return nil
}

// Leader waits until all running nodes report the same running leader.
func (c *Cluster) Leader(tb testing.TB) *Node {
	tb.Helper()
	return c.LeaderOf(tb, c.Running()...)
}

// LeaderOf waits until these nodes report the same leader, which is one of them.
func (c *Cluster) LeaderOf(tb testing.TB, nodes ...*Node) *Node {
	tb.Helper()
	var leader *Node
	Await(tb, "one leader", func() error {
		reports := make(map[string]int)
		leader = nil
		for _, node := range nodes {
			status, err := node.Status(tb.Context())
			if err != nil {
				return err
			}
			reports[status.Leader]++
			if status.Leader == node.ID && status.Role == "leader" {
				leader = node
			}
		}
		if leader == nil || reports[leader.ID] != len(nodes) {
			return fmt.Errorf("reported leaders: %v", reports)
		}
		return nil
	})
	return leader
}

// Follower returns a running node that is not the leader.
func (c *Cluster) Follower(tb testing.TB) *Node {
	tb.Helper()
	return c.Others(c.Leader(tb))[0]
}

// Sum returns the sum of a metric over nodes. A node without the metric is treated as zero.
func (c *Cluster) Sum(tb testing.TB, nodes []*Node, name string, labels ...string) float64 {
	tb.Helper()
	sum := 0.0
	for _, node := range nodes {
		metrics, err := node.Metrics(tb.Context())
		if err != nil {
			tb.Fatal(err)
		}
		sum += metrics.Sum(name, labels...)
	}
	return sum
}
