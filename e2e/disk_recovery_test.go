//go:build linux

package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
)

// TestNodeRestartsAfterLogCompaction makes the log so long that every node replaces its
// beginning by a snapshot, then kills and restarts all nodes. Then a new node joins,
// which can get the state only from a snapshot.
func TestNodeRestartsAfterLogCompaction(t *testing.T) {
	t.Parallel() // it waits for the snapshots most of the time
	c := start(t, 3)
	// Each election writes a round that moves no shard.
	until := c.AwaitServing(t).Epoch + 400
	for c.AwaitServing(t).Epoch < until {
		if err := c.Leader(t).TryAction(t.Context(), "step-down", nil); err != nil {
			t.Log(err) // the next attempt shows whether it matters
		}
	}
	startedAt, before := history.Now(), c.AwaitServing(t)
	for _, n := range c.Nodes() {
		cluster.AwaitFor(t, 2*time.Minute, "node "+n.ID+" has a snapshot", takeSnapshot(n))
	}
	cluster.KillAll(t, c.Nodes()...)
	for _, n := range c.Nodes() {
		n.Start(t)
	}
	wantSame(t, c, startedAt, before, c.AwaitServing(t))
	traffic := c.Load(t, c.Running(), cluster.Traffic{})
	traffic.AwaitStarted(t, shards)
	d := c.Add(t)
	wantMoves(t, c, before, c.AwaitServing(t))
	if err := takeSnapshot(d)(); err != nil {
		t.Errorf("node d has the state from elsewhere: %v", err)
	}
	traffic.AwaitStarted(t, shards)
	traffic.Finish(t)
}

// takeSnapshot reports whether a node has a complete Raft snapshot on its disk.
func takeSnapshot(node *cluster.Node) func() error {
	return func() error {
		found, err := filepath.Glob(filepath.Join(node.DataDir, "raft", "snapshots", "*", "state.bin"))
		if err != nil {
			return err
		}
		for _, f := range found {
			if !strings.HasSuffix(filepath.Dir(f), ".tmp") {
				return nil
			}
		}
		return errors.New("no snapshot")
	}
}

// TestWipedVoterElectsNoLeader repeats the history that loses a committed map if an empty
// disk may vote. Node c is behind, b returns under its ID with an empty disk, and a, the
// only node with the last map, is dead. b and c must not serve. With a, they continue
// from its map.
func TestWipedVoterElectsNoLeader(t *testing.T) {
	t.Parallel() // it waits for refusals most of the time
	c := start(t, 3, "--queue-wait", "3s")
	a, b, behind := c.Node("a"), c.Node("b"), c.Node("c")
	behind.Kill(t)
	last := c.AwaitServing(t) // c does not have this map
	b.Kill(t)
	b.Wipe(t)
	endFault := b.RecordFault(history.DiskFault) // it owns no shards until a leader can add it
	a.Kill(t)
	b.Start(t)
	behind.Start(t)
	for _, n := range []*cluster.Node{b, behind} {
		cluster.Await(t, "node "+n.ID+" is up", func() error { _, err := n.Status(t.Context()); return err })
	}
	// Long enough for many elections, if they were possible.
	for i := range 4 {
		asking := map[string]*cluster.AsyncRequest{}
		for _, n := range []*cluster.Node{b, behind} {
			asking[n.ID] = c.SendAsync(t, n, load.Request{Key: fmt.Sprint("key-", i), Timeout: time.Minute})
		}
		for id, request := range asking {
			if resp := request.Response(t); resp.Status != http.StatusServiceUnavailable || resp.Error != "no-leader" {
				t.Errorf("node %s responded %d %s, want 503 no-leader", id, resp.Status, resp.Error)
			}
		}
	}
	for _, n := range []*cluster.Node{b, behind} {
		if status, err := n.Status(t.Context()); err != nil || status.Role == "leader" || status.LeaseMS != 0 {
			t.Errorf("without a, node %s has %+v, %v", n.ID, status, err)
		}
	}
	a.Start(t)
	after := c.AwaitServing(t)
	endFault()
	if after.Epoch <= last.Epoch {
		t.Errorf("epoch %d after %d", after.Epoch, last.Epoch)
	}
	for _, m := range last.Moves(after) {
		if m.To == "a" {
			t.Errorf("shard %d moved from %s to a: the last map was lost", m.Shard, m.From)
		}
	}
	traffic := c.Load(t, c.Running(), cluster.Traffic{})
	traffic.AwaitStarted(t, 2*shards)
	traffic.Finish(t)
}
