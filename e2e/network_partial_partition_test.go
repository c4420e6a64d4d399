//go:build linux

package e2e_test

import (
	"slices"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
	"shardway/e2e/kit/netns"
	"shardway/event"
)

// maxExclusion is the maximum time until a node is excluded that most members cannot reach: they must notice it, and the
// leader waits for dead-after (2.5 s).
const maxExclusion = 12 * time.Second

// leaveLinks cuts the links between a node and all others except those that remain.
func leaveLinks(t *testing.T, c *cluster.Cluster, network *netns.Net, node *cluster.Node, remaining ...*cluster.Node) {
	t.Helper()
	for _, other := range c.Others(node) {
		if !slices.Contains(remaining, other) {
			must(t, network.DropBoth(hostIndex(node), hostIndex(other)))
		}
	}
}

// exclusions returns the events about the exclusions of a node because of reports.
func exclusions(t *testing.T, leader, excluded *cluster.Node) (events []event.Event) {
	t.Helper()
	for _, e := range nodeEvents(t, leader) {
		if e.Kind == event.NodeDropped && e.Node == excluded.ID && e.Reason == "unreachable" {
			events = append(events, e)
		}
	}
	return events
}

// TestOwnerThatOnlyTheLeaderReachesIsExcluded cuts the links of an owner except the one to the leader. Once the owner
// kept its shards, and the other ingress nodes answered 503. No request may fail now, and the owner returns.
func TestOwnerThatOnlyTheLeaderReachesIsExcluded(t *testing.T) {
	t.Parallel() // it waits for timeouts most of the time
	c, network := startNodesInNamespaces(t, 4)
	c.AwaitServing(t)
	leader := c.Leader(t)
	owner := c.Others(leader)[0]
	others := c.Others(owner)
	traffic := c.Load(t, others, cluster.Traffic{Rate: 50})
	traffic.AwaitStarted(t, seconds/4)
	endFault := owner.RecordFault(history.Unreachable)
	cutAt := time.Now()
	leaveLinks(t, c, network, owner, leader)
	c.AwaitShards(t, others...)
	took := time.Since(cutAt)
	t.Logf("time to exclusion: %v", took.Round(10*time.Millisecond))
	if took > maxExclusion {
		t.Errorf("excluded after %v, want at most %v", took, maxExclusion)
	}
	found := exclusions(t, leader, owner)
	if len(found) != 1 || found[0].NoticedBy != "members" || len(found[0].Reporters) != 2 {
		t.Errorf("exclusions %+v", found)
	}
	for _, node := range others {
		if response := c.SendRequest(t, node, load.Request{Key: "k"}); !response.OK() {
			t.Errorf("%s responds %d %s", node.ID, response.Status, response.Error)
		}
	}
	must(t, network.Heal())
	endFault()
	healedAt := time.Now()
	c.AwaitServing(t)
	t.Logf("time to return: %v", time.Since(healedAt).Round(10*time.Millisecond))
	traffic.AwaitStarted(t, seconds/4)
	traffic.Finish(t)
}

// TestOwnerThatHalfOfTheMembersReachStays has an owner that the leader and one of three other nodes reach: two of four
// members are no majority. When the link to that node is cut, too, three are.
func TestOwnerThatHalfOfTheMembersReachStays(t *testing.T) {
	t.Parallel() // it waits for timeouts most of the time
	c, network := startNodesInNamespaces(t, 5)
	before := c.AwaitServing(t)
	leader := c.Leader(t)
	owner, reaching := c.Others(leader)[0], c.Others(leader)[1]
	others := c.Others(owner)
	endFault := owner.RecordFault(history.Unreachable)
	leaveLinks(t, c, network, owner, leader, reaching)
	asking := c.SendAsync(t, c.Others(leader)[2], load.Request{Key: before.Keys(owner.ID, 1)[0], Timeout: 30 * time.Second})
	time.Sleep(maxExclusion)
	if found := exclusions(t, leader, owner); len(found) > 0 {
		t.Fatalf("excluded by half of the members: %+v", found)
	}
	if status, err := leader.Status(t.Context()); err != nil || status.Epoch != before.Epoch {
		t.Errorf("epoch %d, %v, want %d", status.Epoch, err, before.Epoch)
	}
	cutAt := time.Now()
	must(t, network.DropBoth(hostIndex(owner), hostIndex(reaching)))
	c.AwaitShards(t, others...)
	t.Logf("time to exclusion: %v", time.Since(cutAt).Round(10*time.Millisecond))
	_ = asking.Response(t)
	must(t, network.Heal())
	endFault()
	c.AwaitServing(t)
	c.Check(t)
}

// TestFlappingLinksMoveShardsRarely cuts and restores the links of an owner several times. It returns later each time,
// so its shards do not move with each cut.
func TestFlappingLinksMoveShardsRarely(t *testing.T) {
	t.Parallel() // it waits for timeouts most of the time
	c, network := startNodesInNamespaces(t, 4)
	c.AwaitServing(t)
	leader := c.Leader(t)
	owner := c.Others(leader)[0]
	others := c.Others(owner)
	traffic := c.Load(t, others, cluster.Traffic{Rate: 50})
	endFault := owner.RecordFault(history.Unreachable)
	const cuts = 4
	for range cuts {
		leaveLinks(t, c, network, owner, leader)
		time.Sleep(9 * time.Second)
		must(t, network.Heal())
		time.Sleep(3500 * time.Millisecond)
	}
	endFault()
	c.AwaitServing(t)
	found := exclusions(t, leader, owner)
	t.Logf("%d cuts, %d exclusions", cuts, len(found))
	if len(found) == 0 || len(found) >= cuts {
		t.Errorf("%d exclusions in %d cuts: %+v", len(found), cuts, found)
	}
	traffic.Finish(t)
}
