//go:build linux

package e2e_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shardway/e2e/kit/cluster"
)

// TestDrainUnderLoadFailsNoRequest drains each node in turn, the leader first, with load
// on all of them. The drained node owns no shards, forwards requests and votes. A second
// drain is refused, since no leader could be elected after both nodes stop. After recover
// no drain remains.
func TestDrainUnderLoadFailsNoRequest(t *testing.T) {
	t.Parallel() // it waits for drains most of the time
	c := start(t, 3)
	traffic := c.Load(t, c.Running(), cluster.Traffic{})
	for _, node := range append([]*cluster.Node{c.Leader(t)}, c.Others(c.Leader(t))...) {
		others := c.Others(node)
		before := c.AwaitServing(t)
		traffic.AwaitStarted(t, 100)
		returned := node.RecordDrain()
		if out, code := shardway(t, "drain", node.ID, "--wait", "--admin", others[0].Admin); code != 0 || !strings.Contains(out, "owns nothing") {
			t.Fatalf("drain %s: exit %d, %s", node.ID, code, out)
		}
		without := c.AwaitShards(t, others...)
		wantMoves(t, c, before, without)
		traffic.AwaitStarted(t, 2*shards)
		if status, err := node.Status(t.Context()); err != nil || status.State != "drained" || status.Role == "leader" {
			t.Errorf("%s, drained, is %q, %s: %v", node.ID, status.State, status.Role, err)
		}
		if out, code := shardway(t, "drain", others[0].ID, "--admin", node.Admin); code != 1 || !strings.Contains(out, "1 of 3 voters remain and 2 are required ("+node.ID+" is drained)") {
			t.Errorf("drain %s during the drain of %s: exit %d, %s", others[0].ID, node.ID, code, out)
		}
		if out, code := shardway(t, "uncordon", node.ID, "--admin", node.Admin); code != 0 {
			t.Fatalf("uncordon %s: exit %d, %s", node.ID, code, out)
		}
		wantMoves(t, c, without, c.AwaitServing(t))
		returned()
	}
	traffic.AwaitStarted(t, 100)
	traffic.Finish(t)

	survivor := c.Node("c")
	survivor.PerformAction(t, "drain", map[string][]string{"node": {"c"}})
	c.AwaitShards(t, c.Others(survivor)...)
	for _, node := range c.Running() {
		node.Kill(t)
	}
	if out, code := shardway(t, "recover", "--data", survivor.DataDir, "--confirm", clusterOf(t, survivor)); code != 0 {
		t.Fatalf("recover: exit %d, %s", code, out)
	}
	survivor.Start(t)
	c.AwaitServedBy(t, survivor)
}

// TestLocalDrainEndsWithTheProcess drains the leader from its own machine, under load. No
// request fails, and the cluster stores no drain. A second local drain proceeds with a
// warning that too few voters remain. A killed process leaves its socket behind, which
// does not affect the next process; that one owns shards again.
func TestLocalDrainEndsWithTheProcess(t *testing.T) {
	t.Parallel() // it waits for drains most of the time
	c := start(t, 3)
	first := c.Leader(t)
	second, third := c.Others(first)[0], c.Others(first)[1]
	before := c.AwaitServing(t)
	traffic := c.Load(t, c.Running(), cluster.Traffic{})
	traffic.AwaitStarted(t, 100)
	first.RecordDrain()
	if out, code := shardway(t, "drain", "--local", "--wait", "--data", first.DataDir); code != 0 || !strings.Contains(out, "node "+first.ID+" owns nothing") || strings.Contains(out, "warning") {
		t.Fatalf("drain --local of %s: exit %d, %s", first.ID, code, out)
	}
	wantMoves(t, c, before, c.AwaitShards(t, second, third))
	traffic.AwaitStarted(t, 2*shards)
	if status, err := first.Status(t.Context()); err != nil || status.State != "draining" {
		t.Errorf("%s, that leaves, is %q: %v", first.ID, status.State, err)
	}
	if out, code := shardway(t, "policy", "--admin", second.Admin); code != 0 || !strings.Contains(out, "no operator action") {
		t.Errorf("policy: exit %d, %s", code, out)
	}
	second.RecordDrain()
	out, code := shardway(t, "drain", "--local", "--wait", "--timeout", "1m", "--data", second.DataDir)
	if want := "1 of 3 voters remain and 2 are required (" + first.ID + " is leaving)"; code != 0 || !strings.Contains(out, want) {
		t.Errorf("drain --local of %s: exit %d, %s, want a warning: %s", second.ID, code, out, want)
	}
	c.AwaitShards(t, third)
	traffic.AwaitStarted(t, 2*shards)
	traffic.Finish(t)

	for _, node := range []*cluster.Node{first, second} {
		socket := filepath.Join(node.DataDir, "self.sock")
		if st, err := os.Lstat(socket); err != nil || st.Mode() != fs.ModeSocket|0o600 {
			t.Errorf("the socket of %s: %v, %v", node.ID, st, err)
		}
		if node == first {
			node.Kill(t)
			if out, code := shardway(t, "drain", "--local", "--data", node.DataDir); code != 1 || !strings.Contains(out, "no node runs on the data directory") {
				t.Errorf("drain --local of %s, killed: exit %d, %s", node.ID, code, out)
			}
		} else {
			node.Stop(t)
			if _, err := os.Lstat(socket); !os.IsNotExist(err) {
				t.Errorf("the socket of %s, stopped: %v", node.ID, err)
			}
		}
		node.Start(t)
		c.AwaitShards(t, third, node)
		if node == first {
			if out, code := shardway(t, "drain", "--local", "--wait", "--data", node.DataDir); code != 0 {
				t.Errorf("drain --local of %s, started again: exit %d, %s", node.ID, code, out)
			}
			c.AwaitShards(t, third)
		}
	}
}

// TestDrainReportsRemainingWebSockets has a WebSocket that delays its shard for
// --stream-grace. A waiting command reports it and waits no longer than its timeout, and
// the drain ends.
func TestDrainReportsRemainingWebSockets(t *testing.T) {
	t.Parallel() // it waits most of the time
	c := start(t, 3, "--drain-timeout", "5s", "--stream-grace", "5s")
	node := c.Follower(t)
	s := open(t, c, c.Others(node)[0], c.AwaitServing(t).Keys(node.ID, 1)[0], sockets)
	out, code := shardway(t, "drain", node.ID, "--wait", "--timeout", "1s", "--admin", c.Others(node)[1].Admin)
	if code != 1 || !strings.Contains(out, "after 1s, ") || !strings.Contains(out, "1 WebSocket left at node "+node.ID+": the drain continues (epoch ") || !strings.Contains(out, " is not acknowledged by node "+node.ID+")") {
		t.Errorf("with a socket: exit %d, %s", code, out)
	}
	if out, code = shardway(t, "drain", node.ID, "--wait", "--admin", node.Admin); code != 0 || !strings.Contains(out, "node "+node.ID+" owns nothing") {
		t.Errorf("in the end: exit %d, %s", code, out)
	}
	s.wantClose(t, 1012)
}

// TestDrainReportsWhyShardsRemain drains both nodes of a cluster, each by a request to
// the other. The second drain cannot end, and the command exits with the reason and code
// 1, without waiting for its timeout.
func TestDrainReportsWhyShardsRemain(t *testing.T) {
	t.Parallel() // it waits for drains most of the time
	c := start(t, 2)
	first, second := c.Leader(t), c.Follower(t)
	if out, code := shardway(t, "drain", first.ID, "--force", "--wait", "--admin", second.Admin); code != 0 {
		t.Fatalf("drain %s: exit %d, %s", first.ID, code, out)
	}
	for _, at := range []*cluster.Node{first, second} {
		out, code := shardway(t, "drain", second.ID, "--force", "--wait", "--admin", at.Admin)
		if code != 1 || !strings.Contains(out, " left at node "+second.ID+", and they do not move: no other node can own them") {
			t.Errorf("drain %s, asked of %s: exit %d, %s", second.ID, at.ID, code, out)
		}
	}
	if out, code := shardway(t, "uncordon", first.ID, "--admin", second.Admin); code != 0 {
		t.Fatalf("uncordon %s: exit %d, %s", first.ID, code, out)
	}
	if out, code := shardway(t, "drain", second.ID, "--force", "--wait", "--admin", first.Admin); code != 0 {
		t.Errorf("drain %s, once %s can own its shards: exit %d, %s", second.ID, first.ID, code, out)
	}
}
