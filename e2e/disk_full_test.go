//go:build linux

package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/faultfs"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
)

const (
	// diskBytes is enough for a node of these tests, and soon filled.
	diskBytes = 8 << 20
	// manyShards make a map so big that each change of it needs space: less is
	// written where an older entry was, also on a disk that is full.
	manyShards = 16384
)

// startOnDisks starts three nodes, the voters, each with a disk of its own. A node
// that is added later has the scratch directory, and no vote.
func startOnDisks(t *testing.T, o cluster.Options) (*cluster.Cluster, map[*cluster.Node]*faultfs.Disk) {
	t.Helper()
	if err := faultfs.Available(); err != nil {
		t.Skipf("disks cannot be broken here: %v", err)
	}
	var mounted []*faultfs.Disk
	for i := range 3 {
		d, err := faultfs.Mount(filepath.Join(t.TempDir(), fmt.Sprint("disk-", i)), diskBytes)
		must(t, err)
		t.Cleanup(func() { must(t, d.Unmount()) })
		mounted = append(mounted, d)
	}
	o.Binaries, o.Flags = binaries(t), append([]string{"--max-voters", "3"}, o.Flags...)
	c := cluster.New(t, o)
	disks := make(map[*cluster.Node]*faultfs.Disk)
	for _, d := range mounted {
		n := c.Prepare(t, "--bootstrap-expect", "3")
		n.Data = filepath.Join(d.Dir, "data")
		disks[n] = d
	}
	c.AddJoinFlags()
	for _, n := range c.Nodes() {
		n.Start(t)
	}
	c.AwaitServing(t)
	return c, disks
}

// logged is where a node's log ends now.
func logged(t *testing.T, n *cluster.Node) int64 {
	t.Helper()
	s, err := os.Stat(n.Process().Log)
	must(t, err)
	return s.Size()
}

// alarms are the lines of a node's log, from an offset on, that tell an operator
// to act: those of level error, and the last words of the program. What is wrong with
// the cluster meanwhile is a finding, and not counted.
func alarms(t *testing.T, n *cluster.Node, from int64) []string {
	t.Helper()
	b, err := os.ReadFile(n.Process().Log)
	must(t, err)
	var found []string
	for line := range strings.Lines(string(b[from:])) {
		var l struct {
			Level   string `json:"level"`
			Message string `json:"message"`
		}
		if json.Unmarshal([]byte(line), &l) != nil || l.Level == "error" && l.Message != "finding raised" {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// wantLastWords waits for a node to give up because of its disk: exit code 1, one
// line that names the directory, what is wrong and what to do.
func wantLastWords(t *testing.T, n *cluster.Node, from int64, words ...string) {
	t.Helper()
	n.AwaitExit(t, 1)
	got := alarms(t, n, from)
	if len(got) != 1 {
		t.Errorf("node %s said %d things to act on, want 1:\n%s", n.ID, len(got), strings.Join(got, "\n"))
		return
	}
	t.Log(got[0])
	for _, w := range append(words, n.Data) {
		if !strings.Contains(got[0], w) {
			t.Errorf("the last words of node %s do not contain %q: %s", n.ID, w, got[0])
		}
	}
}

// TestNodeWithoutDiskStopsAndRestarts lets the disks of a follower and of the leader
// be full, and then fail, under load to the others: the node ends in order, with
// one line for the operator; the others serve its shards; and when the disk is
// good again it goes on from what it had.
func TestNodeWithoutDiskStopsAndRestarts(t *testing.T) {
	t.Parallel() // it waits for elections most of the time
	c, disks := startOnDisks(t, cluster.Options{Shards: manyShards})
	var d *cluster.Node
	// change makes all nodes write: a node joins, or is gone.
	change := func() {
		switch {
		case d == nil:
			d = c.Add(t)
		case d.Running():
			d.Kill(t)
		default:
			d.Start(t)
		}
	}
	for _, role := range []string{"follower", "leader"} {
		choose := func() *cluster.Node {
			if role == "leader" {
				return c.Leader(t)
			}
			return followers(t, c, disks)[0]
		}
		t.Log("full disk: " + role)
		victim := choose()
		stopsAndGoesOn(t, c, victim, d, func() (mend func()) {
			must(t, disks[victim].Fill())
			change()
			return func() {
				from := logged(t, victim)
				victim.Start(t)
				wantLastWords(t, victim, from, "no space left", "free space")
				must(t, disks[victim].Free())
			}
		}, "no space left", "free space")
		t.Log("broken disk: " + role)
		victim = choose()
		stopsAndGoesOn(t, c, victim, d, func() (mend func()) {
			must(t, disks[victim].SetFault(faultfs.Fault{Error: syscall.EIO}))
			change()
			return func() {
				if hits, err := disks[victim].Heal(); hits == 0 || err != nil {
					t.Errorf("%d calls have failed, %v", hits, err)
				}
			}
		}, "input/output error", "check the disk")
	}
}

// followers are the voters that do not lead.
func followers(tb testing.TB, c *cluster.Cluster, voters map[*cluster.Node]*faultfs.Disk) []*cluster.Node {
	tb.Helper()
	var found []*cluster.Node
	for _, n := range c.Others(c.Leader(tb)) {
		if voters[n] != nil {
			found = append(found, n)
		}
	}
	return found
}

// stopsAndGoesOn breaks a node's disk and mends it. idle is a node that gets no
// load and may die, or nil.
func stopsAndGoesOn(t *testing.T, c *cluster.Cluster, victim, idle *cluster.Node, fault func() (mend func()), words ...string) {
	t.Helper()
	c.AwaitShards(t, c.Running()...)
	l := c.Load(t, c.Others(victim, idle), cluster.Traffic{Keys: load.KeysIn(manyShards, 1, func(s int) bool { return s%128 == 0 })})
	l.AwaitStarted(t, 50)
	from := logged(t, victim)
	mended := victim.RecordFault(history.DiskFault)
	mend := fault()
	wantLastWords(t, victim, from, words...)
	c.AwaitShards(t, c.Others(victim)...)
	l.AwaitStarted(t, 50)
	mend()
	mended()
	victim.Start(t)
	c.AwaitShards(t, c.Running()...)
	l.AwaitStarted(t, 50)
	l.Finish(t)
}
