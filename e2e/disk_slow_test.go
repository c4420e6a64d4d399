//go:build linux

package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/faultfs"
	"shardway/e2e/kit/history"
)

const (
	// slowSync is the duration of an fsync on a busy disk.
	slowSync = 100 * time.Millisecond
	// stalledSync is longer than any test.
	stalledSync = time.Hour
)

// slowDownDisks makes each fsync of these nodes slower, until stop is called.
func slowDownDisks(t *testing.T, by time.Duration, disks ...*faultfs.Disk) (stop func() (hits int)) {
	t.Helper()
	for _, disk := range disks {
		must(t, disk.SetFault(faultfs.Fault{Delay: by}))
	}
	return func() (hits int) {
		t.Helper()
		for _, disk := range disks {
			n, err := disk.Heal()
			must(t, err)
			hits += n
		}
		return hits
	}
}

// lossCounters returns the counters of missed deadlines of a cluster, by node.
func lossCounters(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	var all []string
	for _, node := range c.Running() {
		for _, name := range []string{"shardway_nodes_excluded_total", "shardway_lease_lapses_total", "shardway_elections_won_total"} {
			if v := c.Sum(t, []*cluster.Node{node}, name); v > 0 {
				all = append(all, fmt.Sprintf("%s %s %v", node.ID, name, v))
			}
		}
	}
	return strings.Join(all, ", ")
}

// TestSlowDiskFailsNoRequest makes each fsync take 100 ms, first on the leader and then
// on all nodes, while a node joins and leaves under load. Map changes take longer,
// without further effects: no node is excluded, no lease lapses, the leader stays, and no
// request fails.
//
// The nodes have real-time priority, so that no lease lapses because of missing CPU time.
// This priority does not apply to the host of a virtual machine, which sometimes took
// both processors away for up to a second. A node that detects a pause of a quarter of
// its lease, 125 ms, has no lease until it is renewed. So if the kernel reports that a
// thread of a node waited for that long, the counters say nothing about the disk, and the
// test is repeated. Otherwise the first attempt counts.
func TestSlowDiskFailsNoRequest(t *testing.T) {
	t.Parallel() // it waits for disks most of the time
	c, disks := startOnDisks(t, cluster.Options{RealTime: true, Flags: []string{"--drain-timeout", "1s"}})
	for _, where := range [][]*faultfs.Disk{{disks[c.Leader(t)]}, slices.Collect(maps.Values(disks))} {
		for try := 1; ; try++ {
			t.Logf("slow on %d nodes", len(where))
			was, waited := lossCounters(t, c), longWaits(c)
			joinAndLeaveSlowly(t, c, where)
			is := lossCounters(t, c)
			if is == was {
				break
			}
			t.Logf("losses: %s, before %s", is, was)
			if waited = longWaits(c) - waited; waited == 0 || try == 5 {
				t.Fatalf("lost at try %d, with slow disks on %d nodes, and threads of nodes had to wait for a processor %d times", try, len(where), waited)
			}
		}
	}
}

// longWaits returns how often a thread of a node waited so long for a processor that the node
// may detect a pause.
func longWaits(c *cluster.Cluster) int {
	n := 0
	for _, fault := range c.Faults() {
		if fault.Kind == history.Stalled && fault.Node != "" {
			n++
		}
	}
	return n
}

// joinAndLeaveSlowly makes a node join and leave while these disks are slow.
func joinAndLeaveSlowly(t *testing.T, c *cluster.Cluster, where []*faultfs.Disk) {
	t.Helper()
	voters, before := c.Running(), c.AwaitServing(t)
	stop := slowDownDisks(t, slowSync, where...)
	traffic := c.Load(t, voters, cluster.Traffic{Rate: 100})
	traffic.AwaitStarted(t, 50)
	node := c.Add(t)
	joined := c.AwaitShards(t, c.Running()...)
	traffic.AwaitStarted(t, 50)
	node.Stop(t)
	after := c.AwaitServing(t)
	traffic.AwaitStarted(t, 50)
	if hits := stop(); hits == 0 {
		t.Error("no fsync was slow")
	}
	traffic.Finish(t)
	wantMoves(t, c, before, joined)
	wantMoves(t, c, joined, after)
}

// TestNodeWithStalledDiskIsReplaced stalls the fsyncs of the leader, and then of a
// follower, while a map changes. The leader is replaced although its process still
// communicates. Both lose their shards to other nodes, and are members as before when the
// disk responds again.
func TestNodeWithStalledDiskIsReplaced(t *testing.T) {
	t.Parallel() // it waits for timeouts most of the time
	c, disks := startOnDisks(t, cluster.Options{Flags: []string{"--drain-timeout", "1s"}})
	hang := func(victim *cluster.Node, change func()) {
		c.AwaitShards(t, c.Running()...)
		traffic := c.Load(t, c.Others(victim), cluster.Traffic{Rate: 100})
		traffic.AwaitStarted(t, 50)
		from := logSize(t, victim)
		endFault := victim.RecordFault(history.DiskFault)
		stop := slowDownDisks(t, stalledSync, disks[victim])
		change()
		c.AwaitShards(t, c.Others(victim)...)
		traffic.AwaitStarted(t, 50)
		if status, err := victim.Status(t.Context()); err != nil || status.LeaseMS != 0 {
			t.Errorf("while its disk hangs, node %s has %+v, %v", victim.ID, status, err)
		}
		if got := operatorLines(t, victim, from); len(got) != 1 || !strings.Contains(got[0], "disk stalled") || !strings.Contains(got[0], victim.DataDir) {
			t.Errorf("node %s said %q, want that its disk hangs, and where", victim.ID, got)
		}
		endFault()
		stop()
		c.AwaitShards(t, c.Running()...)
		traffic.AwaitStarted(t, 50)
		// Its shards were taken over while requests were on their way to it.
		traffic.Finish(t)
	}
	var node *cluster.Node
	hang(c.Leader(t), func() { node = c.Add(t) })
	hang(c.Others(c.Leader(t), node)[0], func() { node.Stop(t) })
}
