//go:build linux

package e2e_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
	"shardway/e2e/kit/netns"
)

// networks counts the networks of this process.
var networks atomic.Int32

// startInNamespaces starts three nodes in separate network namespaces.
func startInNamespaces(t *testing.T, flags ...string) (*cluster.Cluster, *netns.Net) {
	t.Helper()
	return startNodesInNamespaces(t, 3, flags...)
}

// startNodesInNamespaces starts n nodes in separate network namespaces.
func startNodesInNamespaces(t *testing.T, n int, flags ...string) (*cluster.Cluster, *netns.Net) {
	t.Helper()
	if err := netns.Available(); err != nil {
		t.Skipf("wires cannot be cut here: %v", err)
	}
	network, err := netns.New(int(networks.Add(1)), n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	return cluster.Start(t, cluster.Options{Binaries: binaries(t), Nodes: n, Shards: shards, Net: network, Flags: flags, Secret: hasSecret(t)}), network
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hostIndex returns the host number of a node in its network.
func hostIndex(node *cluster.Node) int { return int(node.ID[0] - 'a') }

// TestMinorityStopsServing isolates one of three nodes, a follower and then the leader.
// It serves nothing and reports no-leader, and the majority continues. When the network
// is restored, it returns automatically.
//
//nolint:tparallel // its parts are one cluster's, one after the other
func TestMinorityStopsServing(t *testing.T) {
	t.Parallel() // it waits for leases to end most of the time
	c, network := startInNamespaces(t, "--queue-wait", "6s")
	for _, role := range []struct {
		name   string
		choose func(testing.TB) *cluster.Node
	}{{"follower", c.Follower}, {"leader", c.Leader}} {
		t.Run(role.name, func(t *testing.T) {
			minority := role.choose(t)
			majority := c.Others(minority)
			before := c.AwaitServing(t)
			traffic := c.Load(t, majority, cluster.Traffic{})
			traffic.AwaitStarted(t, seconds/2)
			endFault := minority.RecordFault(history.Unreachable)
			must(t, network.Isolate(hostIndex(minority)))
			minority.AwaitStatus(t, "has no lease", func(status cluster.Status) bool { return status.LeaseMS == 0 })
			alone := history.Now()
			// Its own key and the other keys: it can serve none of them. An owner to
			// which it had sent a request before the timeout counts as unreachable.
			asking := make(map[string]*cluster.AsyncRequest)
			for _, owner := range c.Nodes() {
				asking[owner.ID] = c.SendAsync(t, minority, load.Request{Key: before.Keys(owner.ID, 1)[0], Timeout: 20 * time.Second})
			}
			for owner, request := range asking {
				got := request.Response(t)
				want := got.Status == http.StatusServiceUnavailable && got.Error == "no-leader"
				if owner != minority.ID {
					want = want || got.Status >= 500 && got.Error == "peer-unreachable"
				}
				if !want {
					t.Errorf("partitioned node %s responds %d %s %s for a key of %s, want 503 no-leader",
						minority.ID, got.Status, got.Error, got.Detail, owner)
				}
			}
			takenOver := c.AwaitServedBy(t, majority...)
			traffic.AwaitStarted(t, seconds)
			if status, err := minority.Status(t.Context()); err != nil || status.LeaseMS != 0 || status.Epoch != before.Epoch {
				t.Errorf("cut off, %s has %+v, %v", minority.ID, status, err)
			}
			must(t, network.Heal())
			endFault()
			healed := history.Now()
			wantMoves(t, c, takenOver, c.AwaitServing(t))
			traffic.AwaitStarted(t, seconds/2)
			traffic.Finish(t)
			for _, run := range c.AwaitRuns(t) {
				if run.App == minority.ID && run.Start > alone && run.Start < healed {
					t.Errorf("%v after it had no lease, %s ran %s (epoch %d)", time.Duration(run.Start-alone), minority.ID, run.ID, run.Epoch)
				}
			}
		})
	}
}

// TestForwardingNeedsNoLease disconnects a follower from the leader but not from the
// third node. The follower serves none of its own shards, and forwards requests for the
// shards of the third node.
func TestForwardingNeedsNoLease(t *testing.T) {
	t.Parallel() // it waits for leases to end most of the time
	c, network := startInNamespaces(t, "--queue-wait", "4s")
	leader := c.Leader(t)
	cut, third := c.Others(leader)[0], c.Others(leader)[1]
	before := c.AwaitServing(t)
	endFault := cut.RecordFault(history.Unreachable)
	must(t, network.DropBoth(hostIndex(cut), hostIndex(leader)))
	cut.AwaitStatus(t, "has no lease", func(status cluster.Status) bool { return status.LeaseMS == 0 })
	alone := history.Now()
	for _, key := range before.Keys(third.ID, 1) {
		if resp := c.SendRequest(t, cut, load.Request{Key: key}); !resp.OK() || resp.App != third.ID {
			t.Fatalf("key %q of %s at %s: %d %s %s", key, third.ID, cut.ID, resp.Status, resp.Error, resp.Detail)
		}
	}
	c.AwaitServedBy(t, leader, third)
	must(t, network.Heal())
	endFault()
	healed := history.Now()
	c.AwaitServing(t)
	for _, run := range c.AwaitRuns(t) {
		if run.App == cut.ID && run.Start > alone && run.Start < healed {
			t.Errorf("%v after it had no lease, %s ran %s (epoch %d)", time.Duration(run.Start-alone), cut.ID, run.ID, run.Epoch)
		}
	}
	c.Check(t)
}

// TestOneWayLinkCountsAsUnresponsive drops the packets from the leader to a follower,
// whose heartbeats still arrive. It loses its shards as if it were unresponsive.
func TestOneWayLinkCountsAsUnresponsive(t *testing.T) {
	t.Parallel() // it waits for leases to end most of the time
	c, network := startInNamespaces(t)
	leader := c.Leader(t)
	deaf := c.Others(leader)[0]
	before := c.AwaitServing(t)
	others := c.Others(deaf)
	traffic := c.Load(t, others, cluster.Traffic{})
	traffic.AwaitStarted(t, seconds/2)
	endFault := deaf.RecordFault(history.Unreachable)
	must(t, network.Block(hostIndex(leader), hostIndex(deaf)))
	// Independent of the leader, only the other nodes own the shards.
	takenOver := c.AwaitServedBy(t, others...)
	wantMoves(t, c, before, takenOver)
	traffic.AwaitStarted(t, seconds/2)
	must(t, network.Heal())
	endFault()
	c.AwaitServing(t)
	traffic.AwaitStarted(t, seconds/2)
	traffic.Finish(t)
}

// TestHealedPartitionReunites disconnects all nodes of a cluster, and restores the
// network. No node serves alone, and all of them serve afterwards.
func TestHealedPartitionReunites(t *testing.T) {
	t.Parallel() // it waits for leases to end most of the time
	c, network := startInNamespaces(t)
	var mended []func()
	for _, node := range c.Nodes() {
		mended = append(mended, node.RecordFault(history.Unreachable))
		must(t, network.Isolate(hostIndex(node)))
	}
	for _, node := range c.Nodes() {
		node.AwaitStatus(t, "has no lease", func(status cluster.Status) bool { return status.LeaseMS == 0 })
	}
	traffic := c.Load(t, c.Nodes(), cluster.Traffic{Rate: 20, Timeout: time.Minute})
	traffic.AwaitStarted(t, 20)
	if n := len(traffic.Responses()); n != 0 {
		t.Errorf("%d requests got a response from isolated nodes", n)
	}
	must(t, network.Heal())
	for _, f := range mended {
		f()
	}
	c.AwaitServing(t)
	traffic.AwaitStarted(t, 20)
	traffic.Finish(t)
}
