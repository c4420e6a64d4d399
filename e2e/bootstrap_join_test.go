//go:build linux

package e2e_test

import (
	"fmt"
	"strconv"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/load"
	"shardway/shardmap"
)

// TestColdStartServesEveryShard starts three nodes at once, as a user would, and sends
// requests to each of them.
func TestColdStartServesEveryShard(t *testing.T) {
	t.Parallel() // it waits for the others most of the time
	c := start(t, 3)
	traffic := c.Load(t, c.Running(), cluster.Traffic{Rate: 500})
	traffic.AwaitStarted(t, 4*shards)
	report := traffic.Finish(t)
	if report.Shards != shards {
		t.Errorf("requests ran in %d shards, want %d", report.Shards, shards)
	}
}

// TestRequestsOfOneKeyReachOneApp does what a user tries first: requests with one key at
// each port, whose count increases by one.
func TestRequestsOfOneKeyReachOneApp(t *testing.T) {
	t.Parallel() // it waits for the others most of the time
	c := start(t, 3)
	owner := c.AwaitServing(t).OwnerOf("alice")
	for i := range 9 {
		node := c.Nodes()[i%3]
		resp := c.SendRequest(t, node, load.Request{Key: "alice", Method: []string{"GET", "POST"}[i%2]})
		if !resp.OK() || resp.App != owner || resp.Count != uint64(i+1) {
			t.Fatalf("request %d at %s: %+v, want count %d from %s", i, node.ID, resp, i+1, owner)
		}
	}
	if resp := c.SendRequest(t, c.Node("a"), load.Request{}); resp.Status != 400 || resp.Error != "no-key" {
		t.Errorf("request without a key: %d %s, want 400 no-key", resp.Status, resp.Error)
	}
}

// TestTwoNodesJoinAtOnce repeats a join of two nodes, after which the map must be even.
// In the predecessor of this project, one node owned all shards after most trials.
func TestTwoNodesJoinAtOnce(t *testing.T) {
	t.Parallel() // it waits for the others most of the time
	for trial := range trials {
		t.Run(strconv.Itoa(trial), func(t *testing.T) {
			t.Parallel()
			c := start(t, 1)
			before := c.AwaitServing(t)
			traffic := c.Load(t, c.Running(), cluster.Traffic{})
			traffic.AwaitStarted(t, 50)
			b, d := c.Prepare(t, "--join", c.Node("a").Gossip), c.Prepare(t, "--join", c.Node("a").Gossip)
			b.Start(t)
			d.Start(t)
			after := c.AwaitServing(t)
			traffic.AwaitStarted(t, 50)
			traffic.Finish(t)
			wantMoves(t, c, before, after)
		})
	}
}

// TestJoinAndLeaveMoveFewestShards grows a cluster from one node to four, and shrinks it
// again. Assign is pure, so the test computes every map in advance: it sends requests
// only to shards that do not move, and none of them may be queued.
//
//nolint:tparallel // its parts are one cluster's, one after the other
func TestJoinAndLeaveMoveFewestShards(t *testing.T) {
	t.Parallel() // it waits for the others most of the time
	c := start(t, 1)
	shardMap := c.AwaitServing(t)
	maps := succession{m: shardmap.New(shards), before: make([]shardmap.NodeID, shards)}
	maps.next(c.Running())
	for n := 1; n <= 3; n++ {
		t.Run(fmt.Sprintf("join of node %d", n+1), func(t *testing.T) {
			joining := c.Prepare(t, "--join", c.Node("a").Gossip)
			want := maps.next(append(c.Running(), joining))
			after := changeUndisturbed(t, c, shardMap, want, c.Running(), func() { joining.Start(t) })
			if moves := shardMap.Moves(after); len(moves) != shards/(n+1) {
				t.Errorf("%d shards moved, want %d", len(moves), shards/(n+1))
			}
			shardMap = after
		})
	}
	for _, leaving := range []*cluster.Node{c.Node("d"), c.Leader(t)} {
		t.Run("leave of "+leaving.ID, func(t *testing.T) {
			owned := shardMap.Counts()[leaving.ID]
			stay := c.Others(leaving)
			want := maps.next(stay)
			after := changeUndisturbed(t, c, shardMap, want, stay, func() { leaving.Stop(t) })
			moves := shardMap.Moves(after)
			for _, move := range moves {
				if move.From != leaving.ID {
					t.Errorf("shard %d moved from %s, which stays", move.Shard, move.From)
				}
			}
			if len(moves) != owned {
				t.Errorf("%d shards moved, want the %d of %s", len(moves), owned, leaving.ID)
			}
			shardMap = after
		})
	}
}

// changeUndisturbed makes a change while it sends requests for shards that do not move, to
// these nodes. It checks that the cluster reaches the expected map and that no request
// was queued.
func changeUndisturbed(t *testing.T, c *cluster.Cluster, shardMap cluster.Map, want *shardmap.Map, nodes []*cluster.Node, change func()) cluster.Map {
	t.Helper()
	owner := func(s int) string { return string(want.Owner(shardmap.Shard(s))) }
	keys := load.KeysIn(shards, 1, func(s int) bool { return shardMap.Owner(s) == owner(s) })
	const held = "shardway_queued_requests_total"
	before := c.Sum(t, nodes, held)
	traffic := c.Load(t, nodes, cluster.Traffic{Rate: 300, Keys: keys})
	traffic.AwaitStarted(t, 100)
	change()
	after := c.AwaitServing(t)
	traffic.AwaitStarted(t, 100)
	traffic.Finish(t)
	for s := range shards {
		if after.Owner(s) != owner(s) {
			t.Fatalf("shard %d is owned by %s, want %s: the map differs from the result of Assign for the previous map", s, after.Owner(s), owner(s))
		}
	}
	if metrics, err := nodes[0].Metrics(t.Context()); err != nil || !metrics.Has(held) {
		t.Fatalf("node %s counts no %s: %v", nodes[0].ID, held, err)
	}
	if n := c.Sum(t, nodes, held) - before; n != 0 {
		t.Errorf("%v requests for unmoved shards were queued", n)
	}
	return after
}

// succession is a sequence of maps as Assign computes them, with the previous owner of
// each shard.
type succession struct {
	m      *shardmap.Map
	before []shardmap.NodeID
}

// next returns the map for these nodes that follows the last one.
func (x *succession) next(nodes []*cluster.Node) *shardmap.Map {
	var members []shardmap.Member
	for _, node := range nodes {
		members = append(members, shardmap.Member{ID: shardmap.NodeID(node.ID), Weight: 1})
	}
	shardMap := shardmap.Assign(x.m, members, shardmap.Policy{PreviousOwners: x.before}).WithEpoch(x.m, x.m.Epoch()+1)
	for _, move := range shardmap.Diff(x.m, shardMap) {
		if move.From != "" {
			x.before[move.Shard] = move.From
		}
	}
	x.m = shardMap
	return shardMap
}
