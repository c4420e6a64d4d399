//go:build linux

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"shardway/e2e/badisk"
	"shardway/e2e/cluster"
	"shardway/e2e/history"
)

const (
	// slowSync is what a disk takes that does something else beside.
	slowSync = 100 * time.Millisecond
	// hungSync is longer than any test.
	hungSync = time.Hour
)

// startTraceable starts three nodes, the voters, whose disks can be made slow.
func startTraceable(t *testing.T) *cluster.Cluster {
	t.Helper()
	if err := badisk.Available(); err != nil {
		t.Skipf("disks cannot be made slow here: %v", err)
	}
	return start(t, 3, "--voters", "3", "--drain-timeout", "1s")
}

// slow makes each fsync of these nodes take longer, until the returned func is
// called.
func slow(t *testing.T, by time.Duration, nodes ...*cluster.Node) (stop func() (hits int)) {
	t.Helper()
	var tracers []*badisk.Tracer
	for _, n := range nodes {
		tr, err := badisk.Trace(n.Process().Pid, badisk.Fault{Delay: by})
		must(t, err)
		t.Cleanup(func() { must(t, tr.Stop()) })
		tracers = append(tracers, tr)
	}
	return func() (hits int) {
		for _, tr := range tracers {
			must(t, tr.Stop())
			hits += tr.Hits()
		}
		return hits
	}
}

// losses are what a cluster counts when somebody is taken for dead, by node.
func losses(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	var all []string
	for _, n := range c.Running() {
		for _, name := range []string{"shardway_drops_total", "shardway_lease_lapses_total", "shardway_elections_won_total"} {
			if v := c.Sum(t, []*cluster.Node{n}, name); v > 0 {
				all = append(all, fmt.Sprintf("%s %s %v", n.ID, name, v))
			}
		}
	}
	return strings.Join(all, ", ")
}

// TestSlowDiskCostsNothingButTime lets each fsync take 100 ms, first on the leader
// and then on all nodes, while a node joins and leaves under load: map changes
// take longer, and that is all. Nobody is dropped, no lease lapses, nobody else
// leads, nothing fails.
func TestSlowDiskCostsNothingButTime(t *testing.T) {
	t.Parallel() // it waits for disks most of the time
	c := startTraceable(t)
	voters := c.Running()
	for _, where := range [][]*cluster.Node{{c.Leader(t)}, voters} {
		t.Logf("slow on %d nodes", len(where))
		before := c.AwaitServing(t)
		was := losses(t, c)
		stop := slow(t, slowSync, where...)
		l := c.Load(t, voters, cluster.Traffic{Rate: 100})
		l.Flow(t, 50)
		d := c.Add(t)
		joined := c.AwaitShards(t, c.Running()...)
		l.Flow(t, 50)
		d.Stop(t)
		after := c.AwaitServing(t)
		l.Flow(t, 50)
		if hits := stop(); hits == 0 {
			t.Error("no fsync was slow")
		}
		l.Finish(t)
		wantMoves(t, c, before, joined)
		wantMoves(t, c, joined, after)
		if is := losses(t, c); is != was {
			t.Errorf("losses: %s, before %s", is, was)
		}
	}
}

// TestHungDiskIsDoneWithout lets the fsyncs of the leader, and then of a follower,
// hang when there is a map to change. The leader is replaced, though its process
// lives and talks; either loses its shards, to others who serve them; and both are
// members as before once the disk answers.
func TestHungDiskIsDoneWithout(t *testing.T) {
	t.Parallel() // it waits for timeouts most of the time
	c := startTraceable(t)
	hang := func(victim *cluster.Node, change func()) {
		c.AwaitShards(t, c.Running()...)
		l := c.Load(t, c.Others(victim), cluster.Traffic{Rate: 100})
		l.Flow(t, 50)
		from := logged(t, victim)
		mended := victim.Hurt(history.BadDisk)
		stop := slow(t, hungSync, victim)
		change()
		c.AwaitShards(t, c.Others(victim)...)
		l.Flow(t, 50)
		if s, err := victim.Status(t.Context()); err != nil || s.LeaseMS != 0 {
			t.Errorf("while its disk hangs, node %s has %+v, %v", victim.ID, s, err)
		}
		if got := alarms(t, victim, from); len(got) != 1 || !strings.Contains(got[0], "disk hangs") || !strings.Contains(got[0], victim.Data) {
			t.Errorf("node %s said %q, want that its disk hangs, and where", victim.ID, got)
		}
		mended()
		stop()
		c.AwaitShards(t, c.Running()...)
		l.Flow(t, 50)
		// Its shards were taken while requests were on their way to it.
		l.Finish(t)
	}
	var d *cluster.Node
	hang(c.Leader(t), func() { d = c.Add(t) })
	hang(c.Others(c.Leader(t), d)[0], func() { d.Stop(t) })
}
