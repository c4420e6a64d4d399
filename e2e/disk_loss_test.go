//go:build linux

package e2e_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
)

// TestRecoverAfterTwoOfThreeDisksAreLost loses two of three nodes permanently, the only
// ones with the last maps. The third one is recovered and continues alone, with higher
// epochs than the lost nodes ever assigned. When the lost nodes return with their old
// disks, a majority of the old cluster, they exit and serve nothing. With empty disks
// they join.
func TestRecoverAfterTwoOfThreeDisksAreLost(t *testing.T) {
	t.Parallel() // it waits for elections most of the time
	c := start(t, 3)
	a, b, survivor := c.Node("a"), c.Node("b"), c.Node("c")
	cluster.Await(t, "the survivor has stored its members", func() error {
		seen, err := os.ReadFile(filepath.Join(survivor.DataDir, "gossip"))
		if err == nil && (!strings.Contains(string(seen), "alive: a ") || !strings.Contains(string(seen), "alive: b ")) {
			err = errNotYet
		}
		return err
	})
	survivor.Kill(t)
	c.AwaitShards(t, a, b) // the survivor does not have this map
	c.Leader(t).PerformAction(t, "step-down", nil)
	last := c.AwaitShards(t, a, b)
	traffic := c.Load(t, c.Running(), cluster.Traffic{})
	traffic.AwaitStarted(t, 2*shards)
	traffic.Finish(t)

	if out, code := shardway(t, "recover", "--data", survivor.DataDir, "--confirm", clusterOf(t, survivor)); code != 1 || !strings.Contains(out, "a process responds at") {
		t.Errorf("recover while the others serve: exit %d, %s", code, out)
	}
	a.Kill(t)
	b.Kill(t)
	out, code := shardway(t, "recover", "--data", survivor.DataDir, "--confirm", clusterOf(t, survivor))
	if code != 0 || !strings.Contains(out, "which continues from the state of") {
		t.Fatalf("recover: exit %d, %s", code, out)
	}
	t.Log(out)
	survivor.Start(t)
	alone := c.AwaitServedBy(t, survivor)
	if alone.Epoch <= last.Epoch+1<<32 {
		t.Errorf("epoch %d after %d: no floor", alone.Epoch, last.Epoch)
	}

	traffic = c.Load(t, []*cluster.Node{survivor}, cluster.Traffic{})
	traffic.AwaitStarted(t, shards)
	returned := history.Now()
	a.Start(t)
	b.Start(t)
	for _, n := range []*cluster.Node{a, b} {
		n.AwaitExit(t, 1)
		if log := n.Process().Output(4000); !strings.Contains(log, "was recovered from this node's cluster") || !strings.Contains(log, "empty --data directory") {
			t.Errorf("node %s does not say why it stopped:\n%s", n.ID, log)
		}
		n.Start(t) // its disk has recorded it, so the survivor need not be reachable
		n.AwaitExit(t, 1)
		if log := n.Process().Output(1000); !strings.Contains(log, "are no longer valid") {
			t.Errorf("node %s does not remember why it stopped:\n%s", n.ID, log)
		}
	}
	traffic.AwaitStarted(t, shards)
	for _, run := range c.AwaitRuns(t) {
		if run.App != survivor.ID && run.Start > returned {
			t.Errorf("%s ran %s with its old disk, epoch %d", run.App, run.ID, run.Epoch)
		}
	}
	for _, n := range []*cluster.Node{a, b} {
		n.Wipe(t)
		n.Start(t)
	}
	c.AwaitServing(t)
	traffic.SetTargets(c.Running())
	traffic.AwaitStarted(t, 2*shards)
	traffic.Finish(t)
}

// TestBackupIsRestored loses every disk and continues from a backup that is older than
// the last maps.
func TestBackupIsRestored(t *testing.T) {
	t.Parallel() // it waits for elections most of the time
	c := start(t, 3)
	file := filepath.Join(c.Dir(), "backup")
	if out, code := shardway(t, "backup", file, "--admin", c.Node("b").Admin); code != 0 {
		t.Fatalf("backup: exit %d, %s", code, out)
	}
	d := c.Add(t)
	c.AwaitServing(t)
	d.Stop(t)
	last := c.AwaitServing(t)
	traffic := c.Load(t, c.Running(), cluster.Traffic{})
	traffic.AwaitStarted(t, shards)
	traffic.Finish(t)
	nodes := c.Running()
	cluster.KillAll(t, nodes...)
	for _, n := range nodes {
		n.Wipe(t)
	}
	first := nodes[0]
	if out, code := shardway(t, "restore", file, "--node", first.ID, "--data", first.DataDir); code != 0 {
		t.Fatalf("restore: exit %d, %s", code, out)
	}
	for _, n := range nodes {
		n.Start(t)
	}
	after := c.AwaitServing(t)
	if after.Epoch <= last.Epoch {
		t.Errorf("epoch %d after %d", after.Epoch, last.Epoch)
	}
	traffic = c.Load(t, c.Running(), cluster.Traffic{})
	traffic.AwaitStarted(t, 2*shards)
	traffic.Finish(t)
}

// TestOldDiskIsRefused replaces the disk of a node by an older copy, like a volume
// snapshot. The node exits with one line that contains the remedy, also when it is
// started again. With an empty disk it joins.
func TestOldDiskIsRefused(t *testing.T) {
	t.Parallel() // it waits for the others most of the time
	c := start(t, 3)
	node := c.Follower(t)
	node.Kill(t)
	old := filepath.Join(c.Dir(), "old-disk")
	if err := cluster.CopyData(old, node.DataDir); err != nil {
		t.Fatal(err)
	}
	node.Start(t)
	c.AwaitServing(t)
	node.Kill(t)
	c.Add(t) // a map without n
	c.AwaitServing(t)
	node.Wipe(t)
	if err := cluster.CopyData(node.DataDir, old); err != nil {
		t.Fatal(err)
	}
	traffic := c.Load(t, c.Running(), cluster.Traffic{})
	traffic.AwaitStarted(t, shards)
	returned := history.Now()
	for range 3 { // after these starts, its boot counter would exceed the last one of the disk
		node.Start(t)
		node.AwaitExit(t, 1)
		if log := node.Process().Output(4000); !strings.Contains(log, "older image of itself or a copy") || !strings.Contains(log, "empty --data directory") {
			t.Errorf("the log of node %s does not contain the reason of its exit and a remedy:\n%s", node.ID, log)
		}
	}
	traffic.AwaitStarted(t, shards)
	for _, run := range c.AwaitRuns(t) {
		if run.App == node.ID && run.Start > returned {
			t.Errorf("%s ran %s with its old disk, epoch %d", run.App, run.ID, run.Epoch)
		}
	}
	node.Wipe(t)
	node.Start(t)
	c.AwaitServing(t)
	traffic.SetTargets(c.Running())
	traffic.AwaitStarted(t, 2*shards)
	traffic.Finish(t)
}

// shardway runs a command of the binary and returns its output.
func shardway(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	b, err := exec.CommandContext(t.Context(), binaries(t).Node, args...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return string(b), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b), 0
}

// clusterOf returns the cluster ID in the data directory of a stopped node.
func clusterOf(t *testing.T, node *cluster.Node) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binaries(t).Node, "recover", "--json", "--data", node.DataDir)
	b, err := cmd.Output() // the command fails without confirmation
	var v struct {
		Cluster string `json:"cluster"`
	}
	if json.Unmarshal(b, &v) != nil || v.Cluster == "" {
		t.Fatalf("recover --json: %v\n%s", err, b)
	}
	return v.Cluster
}
