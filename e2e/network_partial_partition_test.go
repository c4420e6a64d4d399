//go:build linux

package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/diagnosis"
	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
	"shardway/e2e/kit/netns"
	"shardway/event"
)

// maxReportTime is the maximum time until most members report a node that they cannot reach.
const maxReportTime = 9 * time.Second

// partialPartition is a cluster in which the links of one owner are cut.
type partialPartition struct {
	*cluster.Cluster

	network       *netns.Net
	leader, owner *cluster.Node
	others        []*cluster.Node // all except owner
}

// startPartialPartition starts n nodes whose links work.
func startPartialPartition(t *testing.T, n int) *partialPartition {
	t.Helper()
	c, network := startNodesInNamespaces(t, n)
	c.AwaitServing(t)
	leader := c.Leader(t)
	owner := c.Others(leader)[0]
	return &partialPartition{Cluster: c, network: network, leader: leader, owner: owner, others: c.Others(owner)}
}

// cutLinks cuts the links of the owner except those to the remaining nodes.
func (pp *partialPartition) cutLinks(t *testing.T, remaining ...*cluster.Node) {
	t.Helper()
	for _, other := range pp.others {
		if !slices.Contains(remaining, other) {
			must(t, pp.network.DropBoth(hostIndex(pp.owner), hostIndex(other)))
		}
	}
}

// maxExclusionTime returns the maximum time until an owner that most members cannot reach is excluded.
func (pp *partialPartition) maxExclusionTime() time.Duration {
	return maxReportTime + pp.Rules().DeadAfter
}

// exclusions returns the events about the exclusions of the owner because of reports.
func (pp *partialPartition) exclusions(t *testing.T) (events []event.Event) {
	t.Helper()
	for _, e := range nodeEvents(t, pp.leader) {
		if e.Kind == event.NodeDropped && e.Node == pp.owner.ID && e.Reason == "unreachable" {
			events = append(events, e)
		}
	}
	return events
}

// wantReporters checks that all nodes explain the exclusion of the owner, and name the nodes that cannot connect to it:
// all except the leader. The owner is not ready for the same reason.
func (pp *partialPartition) wantReporters(t *testing.T) {
	t.Helper()
	w, reporters := diagnosisTest{t, pp.Cluster}, pp.Others(pp.owner, pp.leader)
	text := fmt.Sprintf("node %s is excluded from the shard map, because most other nodes could not connect to its peer port: %s and %s cannot connect now", pp.owner.ID, reporters[0].ID, reporters[1].ID)
	for _, node := range pp.Nodes() { // also the owner, which the leader informs
		w.wantFinding(node, diagnosis.NodeUnreachable, text)
	}
	if err := pp.owner.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "node-unreachable: "+text) {
		t.Errorf("the owner is not ready: %v, want %q", err, text)
	}
	if status, err := pp.owner.Status(t.Context()); err != nil || status.ClusterState != "degraded" || hasFinding(status, diagnosis.Joining) {
		t.Errorf("state %s, findings %v, %v, want degraded without joining", status.ClusterState, status.Findings, err)
	}
}

// TestOwnerThatOnlyTheLeaderReachesIsExcluded cuts the links of an owner except the one to the leader. Once the owner
// kept its shards, and the other ingress nodes answered 503. No request may fail now, and the owner returns.
func TestOwnerThatOnlyTheLeaderReachesIsExcluded(t *testing.T) {
	t.Parallel() // it waits for timeouts most of the time
	pp := startPartialPartition(t, 4)
	traffic := pp.Load(t, pp.others, cluster.Traffic{Rate: 50})
	traffic.AwaitStarted(t, seconds/4)
	endFault := pp.owner.RecordFault(history.Unreachable)
	cutAt := time.Now()
	pp.cutLinks(t, pp.leader)
	pp.AwaitShards(t, pp.others...)
	took := time.Since(cutAt)
	t.Logf("time to exclusion: %v", took.Round(10*time.Millisecond))
	if limit := pp.maxExclusionTime(); took > limit {
		t.Errorf("excluded after %v, want at most %v", took, limit)
	}
	found := pp.exclusions(t)
	if len(found) != 1 || found[0].NoticedBy != "members" || len(found[0].Reporters) != 2 {
		t.Errorf("exclusions %+v", found)
	}
	pp.wantReporters(t)
	for _, node := range pp.others {
		if response := pp.SendRequest(t, node, load.Request{Key: "k"}); !response.OK() {
			t.Errorf("%s responds %d %s", node.ID, response.Status, response.Error)
		}
	}
	must(t, pp.network.Heal())
	endFault()
	healedAt := time.Now()
	pp.AwaitServing(t)
	t.Logf("time to return: %v", time.Since(healedAt).Round(10*time.Millisecond))
	for _, node := range pp.Nodes() {
		node.AwaitStatus(t, "the owner is no longer reported", func(status cluster.Status) bool { return !hasFinding(status, diagnosis.NodeUnreachable) })
	}
	traffic.AwaitStarted(t, seconds/4)
	traffic.Finish(t)
}

// TestOwnerThatHalfOfTheMembersReachStays has an owner that the leader and one of three other nodes reach: two of four
// members are no majority. When the link to that node is cut, too, three are.
func TestOwnerThatHalfOfTheMembersReachStays(t *testing.T) {
	t.Parallel() // it waits for timeouts most of the time
	pp := startPartialPartition(t, 5)
	before := pp.AwaitServing(t)
	reaching, ingress := pp.Others(pp.leader)[1], pp.Others(pp.leader)[2]
	endFault := pp.owner.RecordFault(history.Unreachable)
	pp.cutLinks(t, pp.leader, reaching)
	asking := pp.SendAsync(t, ingress, load.Request{Key: before.Keys(pp.owner.ID, 1)[0], Timeout: 30 * time.Second})
	time.Sleep(pp.maxExclusionTime()) // nothing may happen, and no node shows the reports of half of the members
	if found := pp.exclusions(t); len(found) > 0 {
		t.Fatalf("excluded by half of the members: %+v", found)
	}
	if status, err := pp.leader.Status(t.Context()); err != nil || status.Epoch != before.Epoch {
		t.Errorf("epoch %d, %v, want %d", status.Epoch, err, before.Epoch)
	}
	cutAt := time.Now()
	must(t, pp.network.DropBoth(hostIndex(pp.owner), hostIndex(reaching)))
	pp.AwaitShards(t, pp.others...)
	t.Logf("time to exclusion: %v", time.Since(cutAt).Round(10*time.Millisecond))
	_ = asking.Response(t)
	must(t, pp.network.Heal())
	endFault()
	pp.AwaitServing(t)
	pp.Check(t)
}

// TestFlappingLinksMoveShardsRarely cuts and restores the links of an owner several times. After the first cut it
// returns soon. After further cuts it returns later, so its shards do not move with each cut.
func TestFlappingLinksMoveShardsRarely(t *testing.T) {
	t.Parallel() // it waits for timeouts most of the time
	const cuts, rate = 4, 50
	pp := startPartialPartition(t, 4)
	traffic := pp.Load(t, pp.others, cluster.Traffic{Rate: rate})
	endFault := pp.owner.RecordFault(history.Unreachable)
	flap := func() (healedAt time.Time) {
		pp.cutLinks(t, pp.leader)
		pp.AwaitShards(t, pp.others...)
		traffic.AwaitStarted(t, 3*rate) // until members report an owner that was still excluded
		must(t, pp.network.Heal())
		return time.Now()
	}
	healedAt := flap()
	pp.AwaitServing(t)
	returnTime := time.Since(healedAt)
	for range cuts - 1 {
		flap()
		traffic.AwaitStarted(t, int((returnTime+time.Second).Seconds()*rate)) // too short for later returns
	}
	endFault()
	pp.AwaitServing(t)
	found := pp.exclusions(t)
	t.Logf("first return after %v, %d cuts, %d exclusions", returnTime.Round(10*time.Millisecond), cuts, len(found))
	if len(found) < 2 || len(found) >= cuts {
		t.Errorf("%d exclusions in %d cuts: %+v", len(found), cuts, found)
	}
	traffic.Finish(t)
}
