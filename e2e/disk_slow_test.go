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
	// slowSync is what a disk takes that does something else beside.
	slowSync = 100 * time.Millisecond
	// hungSync is longer than any test.
	hungSync = time.Hour
)

// slow makes each fsync of these nodes take longer, until the returned func is
// called.
func slow(t *testing.T, by time.Duration, disks ...*faultfs.Disk) (stop func() (hits int)) {
	t.Helper()
	for _, d := range disks {
		must(t, d.SetFault(faultfs.Fault{Delay: by}))
	}
	return func() (hits int) {
		t.Helper()
		for _, d := range disks {
			n, err := d.Heal()
			must(t, err)
			hits += n
		}
		return hits
	}
}

// losses are what a cluster counts when somebody is taken for dead, by node.
func losses(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	var all []string
	for _, n := range c.Running() {
		for _, name := range []string{"shardway_nodes_excluded_total", "shardway_lease_lapses_total", "shardway_elections_won_total"} {
			if v := c.Sum(t, []*cluster.Node{n}, name); v > 0 {
				all = append(all, fmt.Sprintf("%s %s %v", n.ID, name, v))
			}
		}
	}
	return strings.Join(all, ", ")
}

// TestSlowDiskFailsNoRequest lets each fsync take 100 ms, first on the leader
// and then on all nodes, while a node joins and leaves under load: map changes
// take longer, and that is all. Nobody is dropped, no lease lapses, nobody else
// leads, nothing fails.
//
// Nor does a lease lapse for want of a processor: the nodes are urgent. They are not
// above the host of a virtual machine, which took both processors away for up to a
// second as this was written, and a node that finds itself paused for a quarter of its
// lease, 125 ms, has none until it is renewed. So where the kernel says that a thread
// of a node had to wait for that long, losses tell nothing about the disk, and it is
// asked again; else the first one counts.
func TestSlowDiskFailsNoRequest(t *testing.T) {
	t.Parallel() // it waits for disks most of the time
	c, disks := startOnDisks(t, cluster.Options{Urgent: true, Flags: []string{"--drain-timeout", "1s"}})
	for _, where := range [][]*faultfs.Disk{{disks[c.Leader(t)]}, slices.Collect(maps.Values(disks))} {
		for try := 1; ; try++ {
			t.Logf("slow on %d nodes", len(where))
			was, waited := losses(t, c), waits(c)
			slowly(t, c, where)
			is := losses(t, c)
			if is == was {
				break
			}
			t.Logf("losses: %s, before %s", is, was)
			if waited = waits(c) - waited; waited == 0 || try == 5 {
				t.Fatalf("lost at try %d, with slow disks on %d nodes, and threads of nodes had to wait for a processor %d times", try, len(where), waited)
			}
		}
	}
}

// waits is how often a thread of a node has had to wait for a processor for so long
// that the node may take it for a pause.
func waits(c *cluster.Cluster) int {
	n := 0
	for _, f := range c.Faults() {
		if f.Kind == history.Stalled && f.Node != "" {
			n++
		}
	}
	return n
}

// slowly has a node join and leave while these disks are slow.
func slowly(t *testing.T, c *cluster.Cluster, where []*faultfs.Disk) {
	t.Helper()
	voters, before := c.Running(), c.AwaitServing(t)
	stop := slow(t, slowSync, where...)
	l := c.Load(t, voters, cluster.Traffic{Rate: 100})
	l.AwaitStarted(t, 50)
	d := c.Add(t)
	joined := c.AwaitShards(t, c.Running()...)
	l.AwaitStarted(t, 50)
	d.Stop(t)
	after := c.AwaitServing(t)
	l.AwaitStarted(t, 50)
	if hits := stop(); hits == 0 {
		t.Error("no fsync was slow")
	}
	l.Finish(t)
	wantMoves(t, c, before, joined)
	wantMoves(t, c, joined, after)
}

// TestNodeWithStalledDiskIsReplaced lets the fsyncs of the leader, and then of a follower,
// hang when there is a map to change. The leader is replaced, though its process
// lives and talks; either loses its shards, to others who serve them; and both are
// members as before once the disk answers.
func TestNodeWithStalledDiskIsReplaced(t *testing.T) {
	t.Parallel() // it waits for timeouts most of the time
	c, disks := startOnDisks(t, cluster.Options{Flags: []string{"--drain-timeout", "1s"}})
	hang := func(victim *cluster.Node, change func()) {
		c.AwaitShards(t, c.Running()...)
		l := c.Load(t, c.Others(victim), cluster.Traffic{Rate: 100})
		l.AwaitStarted(t, 50)
		from := logged(t, victim)
		mended := victim.RecordFault(history.DiskFault)
		stop := slow(t, hungSync, disks[victim])
		change()
		c.AwaitShards(t, c.Others(victim)...)
		l.AwaitStarted(t, 50)
		if s, err := victim.Status(t.Context()); err != nil || s.LeaseMS != 0 {
			t.Errorf("while its disk hangs, node %s has %+v, %v", victim.ID, s, err)
		}
		if got := alarms(t, victim, from); len(got) != 1 || !strings.Contains(got[0], "disk stalled") || !strings.Contains(got[0], victim.Data) {
			t.Errorf("node %s said %q, want that its disk hangs, and where", victim.ID, got)
		}
		mended()
		stop()
		c.AwaitShards(t, c.Running()...)
		l.AwaitStarted(t, 50)
		// Its shards were taken while requests were on their way to it.
		l.Finish(t)
	}
	var d *cluster.Node
	hang(c.Leader(t), func() { d = c.Add(t) })
	hang(c.Others(c.Leader(t), d)[0], func() { d.Stop(t) })
}
