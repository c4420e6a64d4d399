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
	l := c.Load(t, c.Running(), cluster.Traffic{})
	for _, n := range append([]*cluster.Node{c.Leader(t)}, c.Others(c.Leader(t))...) {
		others := c.Others(n)
		before := c.AwaitServing(t)
		l.AwaitStarted(t, 100)
		returned := n.RecordDrain()
		if out, code := shardway(t, "drain", n.ID, "--wait", "--admin", others[0].Admin); code != 0 || !strings.Contains(out, "owns nothing") {
			t.Fatalf("drain %s: exit %d, %s", n.ID, code, out)
		}
		without := c.AwaitShards(t, others...)
		wantMoves(t, c, before, without)
		l.AwaitStarted(t, 2*shards)
		if s, err := n.Status(t.Context()); err != nil || s.State != "drained" || s.Role == "leader" {
			t.Errorf("%s, drained, is %q, %s: %v", n.ID, s.State, s.Role, err)
		}
		if out, code := shardway(t, "drain", others[0].ID, "--admin", n.Admin); code != 1 || !strings.Contains(out, "1 of 3 voters remain and 2 are required ("+n.ID+" is drained)") {
			t.Errorf("drain %s beside %s: exit %d, %s", others[0].ID, n.ID, code, out)
		}
		if out, code := shardway(t, "uncordon", n.ID, "--admin", n.Admin); code != 0 {
			t.Fatalf("uncordon %s: exit %d, %s", n.ID, code, out)
		}
		wantMoves(t, c, without, c.AwaitServing(t))
		returned()
	}
	l.AwaitStarted(t, 100)
	l.Finish(t)

	survivor := c.Node("c")
	survivor.PerformAction(t, "drain", map[string][]string{"node": {"c"}})
	c.AwaitShards(t, c.Others(survivor)...)
	for _, n := range c.Running() {
		n.Kill(t)
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
	l := c.Load(t, c.Running(), cluster.Traffic{})
	l.AwaitStarted(t, 100)
	first.RecordDrain()
	if out, code := shardway(t, "drain", "--local", "--wait", "--data", first.DataDir); code != 0 || !strings.Contains(out, "node "+first.ID+" owns nothing") || strings.Contains(out, "warning") {
		t.Fatalf("drain --local of %s: exit %d, %s", first.ID, code, out)
	}
	wantMoves(t, c, before, c.AwaitShards(t, second, third))
	l.AwaitStarted(t, 2*shards)
	if s, err := first.Status(t.Context()); err != nil || s.State != "draining" {
		t.Errorf("%s, that leaves, is %q: %v", first.ID, s.State, err)
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
	l.AwaitStarted(t, 2*shards)
	l.Finish(t)

	for _, n := range []*cluster.Node{first, second} {
		socket := filepath.Join(n.DataDir, "self.sock")
		if st, err := os.Lstat(socket); err != nil || st.Mode() != fs.ModeSocket|0o600 {
			t.Errorf("the socket of %s: %v, %v", n.ID, st, err)
		}
		if n == first {
			n.Kill(t)
			if out, code := shardway(t, "drain", "--local", "--data", n.DataDir); code != 1 || !strings.Contains(out, "no node runs on the data directory") {
				t.Errorf("drain --local of %s, killed: exit %d, %s", n.ID, code, out)
			}
		} else {
			n.Stop(t)
			if _, err := os.Lstat(socket); !os.IsNotExist(err) {
				t.Errorf("the socket of %s, stopped: %v", n.ID, err)
			}
		}
		n.Start(t)
		c.AwaitShards(t, third, n)
		if n == first {
			if out, code := shardway(t, "drain", "--local", "--wait", "--data", n.DataDir); code != 0 {
				t.Errorf("drain --local of %s, started again: exit %d, %s", n.ID, code, out)
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
	n := c.Follower(t)
	s := open(t, c, c.Others(n)[0], c.AwaitServing(t).Keys(n.ID, 1)[0], sockets)
	out, code := shardway(t, "drain", n.ID, "--wait", "--timeout", "1s", "--admin", c.Others(n)[1].Admin)
	if code != 1 || !strings.Contains(out, "after 1s, ") || !strings.Contains(out, "1 WebSocket left at node "+n.ID+": the drain continues (epoch ") || !strings.Contains(out, " is not acknowledged by node "+n.ID+")") {
		t.Errorf("with a socket: exit %d, %s", code, out)
	}
	if out, code = shardway(t, "drain", n.ID, "--wait", "--admin", n.Admin); code != 0 || !strings.Contains(out, "node "+n.ID+" owns nothing") {
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
