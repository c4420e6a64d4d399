//go:build linux

package cluster

import (
	"fmt"
	"testing"
)

// maxVoters is the default of --max-voters.
const maxVoters = 5

// AwaitServing waits until the running nodes agree on one leader and on one committed
// map, hold leases, and vote. The map must be even, without orphaned shards, and contain
// only these nodes. Before all of them vote, the loss of one node may stop the others.
func (c *Cluster) AwaitServing(tb testing.TB) Map {
	tb.Helper()
	return c.AwaitServedBy(tb, c.Running()...)
}

// AwaitServedBy is AwaitServing for some of the nodes. The others may be paused or
// disconnected.
func (c *Cluster) AwaitServedBy(tb testing.TB, nodes ...*Node) Map {
	tb.Helper()
	m := c.AwaitShards(tb, nodes...)
	Await(tb, fmt.Sprintf("%d nodes vote", len(nodes)), func() error { return c.voting(tb, nodes) })
	return m
}

// Serving returns nil if these nodes serve and vote now, as AwaitServedBy requires.
// Otherwise the error describes what is missing.
func (c *Cluster) Serving(tb testing.TB, nodes ...*Node) (Map, error) {
	tb.Helper()
	m, err := c.serving(tb, nodes)
	if err == nil {
		err = c.voting(tb, nodes)
	}
	return m, err
}

func (c *Cluster) voting(tb testing.TB, nodes []*Node) error {
	tb.Helper()
	s, err := nodes[0].Status(tb.Context())
	if err != nil {
		return err
	}
	voters := 0
	for _, n := range nodes {
		if s.Member(n.ID).Voter {
			voters++
		}
	}
	if voters < min(len(nodes), maxVoters) {
		return fmt.Errorf("%d voters: %+v", voters, s.Nodes)
	}
	return nil
}

// AwaitShards waits until these nodes serve every shard, whether they vote or not.
func (c *Cluster) AwaitShards(tb testing.TB, nodes ...*Node) Map {
	tb.Helper()
	var m Map
	Await(tb, fmt.Sprintf("%d nodes serve", len(nodes)), func() (err error) {
		m, err = c.serving(tb, nodes)
		return err
	})
	return m
}

func (c *Cluster) serving(tb testing.TB, nodes []*Node) (Map, error) {
	tb.Helper()
	var leader string
	var m Map
	for i, n := range nodes {
		s, err := n.Status(tb.Context())
		if err != nil {
			return m, err
		}
		if s.State != "operational" || s.LeaseMS <= 0 || s.Epoch == 0 || s.Epoch != s.Proposed {
			return m, fmt.Errorf("node %s: %s, lease %d ms, epoch %d, proposed %d", n.ID, s.State, s.LeaseMS, s.Epoch, s.Proposed)
		}
		if i == 0 {
			leader = s.Leader
			if m, err = n.Map(tb.Context()); err != nil {
				return m, err
			}
		}
		if s.Leader == "" || s.Leader != leader {
			return m, fmt.Errorf("node %s follows %q, %s follows %q", n.ID, s.Leader, nodes[0].ID, leader)
		}
		if s.Epoch != m.Epoch {
			return m, fmt.Errorf("node %s is at epoch %d, %s at %d", n.ID, s.Epoch, nodes[0].ID, m.Epoch)
		}
	}
	counts := m.Counts()
	if !m.Even() || len(counts) != min(len(nodes), m.Shards) {
		return m, fmt.Errorf("the map has counts %v for %d nodes", counts, len(nodes))
	}
	for _, n := range nodes {
		if counts[n.ID] == 0 {
			return m, fmt.Errorf("node %s owns no shards: %v", n.ID, counts)
		}
	}
	return m, nil
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
		named := make(map[string]int)
		leader = nil
		for _, n := range nodes {
			s, err := n.Status(tb.Context())
			if err != nil {
				return err
			}
			named[s.Leader]++
			if s.Leader == n.ID && s.Role == "leader" {
				leader = n
			}
		}
		if leader == nil || named[leader.ID] != len(nodes) {
			return fmt.Errorf("reported leaders: %v", named)
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

// Sum returns the sum of a metric over nodes. A missing metric counts as 0.
func (c *Cluster) Sum(tb testing.TB, nodes []*Node, name string, labels ...string) float64 {
	tb.Helper()
	sum := 0.0
	for _, n := range nodes {
		m, err := n.Metrics(tb.Context())
		if err != nil {
			tb.Fatal(err)
		}
		sum += m.Sum(name, labels...)
	}
	return sum
}
