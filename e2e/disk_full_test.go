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
	// diskBytes is enough for a node of these tests, and is soon full.
	diskBytes = 8 << 20
	// manyShards makes the map so large that each change needs new space. A smaller entry
	// would overwrite an older one, even on a full disk.
	manyShards = 16384
)

// startOnDisks starts three nodes, the voters, each with its own disk. A node that is
// added later uses the scratch directory, and has no vote.
func startOnDisks(t *testing.T, opts cluster.Options) (*cluster.Cluster, map[*cluster.Node]*faultfs.Disk) {
	t.Helper()
	if err := faultfs.Available(); err != nil {
		t.Skipf("faults of disks are not possible on this machine: %v", err)
	}
	var mounted []*faultfs.Disk
	for i := range 3 {
		disk, err := faultfs.Mount(filepath.Join(t.TempDir(), fmt.Sprint("disk-", i)), diskBytes)
		must(t, err)
		t.Cleanup(func() { must(t, disk.Unmount()) })
		mounted = append(mounted, disk)
	}
	opts.Binaries, opts.Flags = binaries(t), append([]string{"--max-voters", "3"}, opts.Flags...)
	c := cluster.New(t, opts)
	disks := make(map[*cluster.Node]*faultfs.Disk)
	for _, disk := range mounted {
		node := c.Prepare(t, "--bootstrap-expect", "3")
		node.DataDir = filepath.Join(disk.Dir, "data")
		disks[node] = disk
	}
	c.AddJoinFlags()
	for _, node := range c.Nodes() {
		node.Start(t)
	}
	c.AwaitServing(t)
	return c, disks
}

// logSize returns the current size of the log of a node.
func logSize(t *testing.T, node *cluster.Node) int64 {
	t.Helper()
	s, err := os.Stat(node.Process().Log)
	must(t, err)
	return s.Size()
}

// operatorLines returns the lines of the log of a node, from an offset on, that require an
// operator: those of level error, and the final error of the program. Findings about the
// cluster are not counted.
func operatorLines(t *testing.T, node *cluster.Node, from int64) []string {
	t.Helper()
	b, err := os.ReadFile(node.Process().Log)
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

// wantExitLine waits until a node exits because of its disk, with exit code 1 and one
// line that names the directory, the problem and the remedy.
func wantExitLine(t *testing.T, node *cluster.Node, from int64, words ...string) {
	t.Helper()
	node.AwaitExit(t, 1)
	got := operatorLines(t, node, from)
	if len(got) != 1 {
		t.Errorf("node %s printed %d lines for the operator, want 1:\n%s", node.ID, len(got), strings.Join(got, "\n"))
		return
	}
	t.Log(got[0])
	for _, w := range append(words, node.DataDir) {
		if !strings.Contains(got[0], w) {
			t.Errorf("the error of node %s does not contain %q: %s", node.ID, w, got[0])
		}
	}
}

// TestNodeWithoutDiskStopsAndRestarts fills the disk of a follower and of the leader, and
// then makes it fail, with load on the other nodes. The node exits cleanly, with one line
// for the operator. The other nodes serve its shards. When the disk works again, the node
// continues with its state.
func TestNodeWithoutDiskStopsAndRestarts(t *testing.T) {
	t.Parallel() // it waits for elections most of the time
	c, disks := startOnDisks(t, cluster.Options{Shards: manyShards})
	var node *cluster.Node
	// change makes all nodes write: a node joins or leaves.
	change := func() {
		switch {
		case node == nil:
			node = c.Add(t)
		case node.Running():
			node.Kill(t)
		default:
			node.Start(t)
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
		checkStopAndRestart(t, c, victim, node, func() (endFault func()) {
			must(t, disks[victim].Fill())
			change()
			return func() {
				from := logSize(t, victim)
				victim.Start(t)
				wantExitLine(t, victim, from, "no space left", "free space")
				must(t, disks[victim].RemoveFiller())
			}
		}, "no space left", "free space")
		t.Log("broken disk: " + role)
		victim = choose()
		checkStopAndRestart(t, c, victim, node, func() (endFault func()) {
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

// followers returns the voters except the leader.
func followers(tb testing.TB, c *cluster.Cluster, voters map[*cluster.Node]*faultfs.Disk) []*cluster.Node {
	tb.Helper()
	var found []*cluster.Node
	for _, node := range c.Others(c.Leader(tb)) {
		if voters[node] != nil {
			found = append(found, node)
		}
	}
	return found
}

// checkStopAndRestart injects a disk fault into a node and ends it. idle is a node without
// load that may die, or nil.
func checkStopAndRestart(t *testing.T, c *cluster.Cluster, victim, idle *cluster.Node, beginFault func() (endFault func()), words ...string) {
	t.Helper()
	c.AwaitShards(t, c.Running()...)
	traffic := c.Load(t, c.Others(victim, idle), cluster.Traffic{Keys: load.KeysIn(manyShards, 1, func(s int) bool { return s%128 == 0 })})
	traffic.AwaitStarted(t, 50)
	from := logSize(t, victim)
	recordEnd := victim.RecordFault(history.DiskFault)
	endFault := beginFault()
	wantExitLine(t, victim, from, words...)
	c.AwaitShards(t, c.Others(victim)...)
	traffic.AwaitStarted(t, 50)
	endFault()
	recordEnd()
	victim.Start(t)
	c.AwaitShards(t, c.Running()...)
	traffic.AwaitStarted(t, 50)
	traffic.Finish(t)
}
