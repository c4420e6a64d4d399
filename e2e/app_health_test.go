//go:build linux

package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shardway/diagnosis"
	"shardway/e2e/kit/cluster"
)

// startWithHealthChecks starts three nodes that check their apps every 100 ms.
func startWithHealthChecks(t *testing.T) *cluster.Cluster {
	t.Helper()
	return start(t, 3, "--health", "/health", "--health-interval", "100ms")
}

// hasFinding reports whether a node has one of these findings.
func hasFinding(status cluster.Status, codes ...diagnosis.Code) bool {
	for _, finding := range status.Findings {
		if slices.Contains(codes, finding.Code) {
			return true
		}
	}
	return false
}

// TestFailureOfSharedDependencyMovesNoShard makes the health checks of all apps fail
// within a second, and then succeed one after the other. No shard moves, and all requests
// are served.
func TestFailureOfSharedDependencyMovesNoShard(t *testing.T) {
	t.Parallel()
	c := startWithHealthChecks(t)
	before := c.AwaitServing(t)
	traffic := c.Load(t, c.Running(), cluster.Traffic{})
	for _, n := range c.Nodes() {
		n.App.SetUnhealthy(t, true)
	}
	a := c.Nodes()[0]
	a.AwaitStatus(t, "all apps are unhealthy", func(status cluster.Status) bool { return hasFinding(status, diagnosis.NoHealthyApp) })
	traffic.AwaitStarted(t, 2*shards)
	a.App.SetUnhealthy(t, false)
	a.AwaitStatus(t, "most apps are unhealthy", func(status cluster.Status) bool { return hasFinding(status, diagnosis.HealthPanic) })
	for _, n := range c.Nodes() {
		if err := n.Ready(t.Context()); err != nil {
			t.Errorf("node %s serves its shards: %v", n.ID, err)
		}
	}
	for _, n := range c.Nodes()[1:] {
		traffic.AwaitStarted(t, shards)
		n.App.SetUnhealthy(t, false)
	}
	a.AwaitStatus(t, "all apps are healthy", func(status cluster.Status) bool { return len(status.Findings) == 0 })
	traffic.AwaitStarted(t, shards)
	traffic.Finish(t)
	if after := c.AwaitServing(t); after.Epoch != before.Epoch {
		t.Errorf("map %d after %d: %d shards moved", after.Epoch, before.Epoch, len(before.Moves(after)))
	}
}

// TestFlappingAppCausesFewMoves alternates between failing and successful health checks
// of one app. Its shards move away and back once or twice, and no request fails.
func TestFlappingAppCausesFewMoves(t *testing.T) {
	t.Parallel()
	c := startWithHealthChecks(t)
	first := c.AwaitServing(t)
	traffic := c.Load(t, c.Running(), cluster.Traffic{})
	node, other := c.Follower(t), c.Leader(t)
	found := false
	for range 25 {
		for _, fails := range []bool{true, false} {
			node.App.SetUnhealthy(t, fails)
			cluster.Await(t, fmt.Sprintf("the app fails: %t", fails), func() error {
				status, err := other.Status(t.Context())
				if err != nil {
					return err
				}
				found = found || hasFinding(status, diagnosis.AppFlapping)
				for _, m := range status.Nodes {
					if m.ID == node.ID && (m.App == "unhealthy") == fails {
						return nil
					}
				}
				return errors.New("not yet")
			})
		}
	}
	last, err := other.Map(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Each map takes two log entries: its proposal, which determines its epoch, and its
	// commit.
	if maps := (last.Epoch - first.Epoch) / 2; maps < 1 || maps > 5 {
		t.Errorf("about %d maps, want at most five", maps)
	}
	if !found {
		t.Error("no node reports that the app flaps")
	}
	traffic.Finish(t)
}

// TestShardsLeaveDeadAppAtOnce kills an app. Its shards move at once, since its port
// refuses connections.
func TestShardsLeaveDeadAppAtOnce(t *testing.T) {
	t.Parallel()
	c := startWithHealthChecks(t)
	c.AwaitServing(t)
	node := c.Follower(t)
	node.App.Kill(t)
	startedAt := time.Now()
	shardMap := c.AwaitShards(t, c.Others(node)...)
	if elapsed := time.Since(startedAt); elapsed > 3*time.Second || shardMap.Counts()[node.ID] > 0 {
		t.Errorf("after %v node %s owns %d shards", elapsed, node.ID, shardMap.Counts()[node.ID])
	}
	node.App.Start(t)
	c.AwaitServing(t)
}

// TestNodeWithoutFileDescriptorsKeepsItsShards uses up the file descriptors of a node, so
// it cannot check its app. That is no evidence about the app: the node keeps its shards
// for longer than it takes until another app with failing checks counts as unhealthy.
func TestNodeWithoutFileDescriptorsKeepsItsShards(t *testing.T) {
	t.Parallel()
	c := startWithHealthChecks(t)
	before := c.AwaitServing(t)
	node := c.Follower(t)
	cluster.Await(t, "the node has written the files of its join", func() error { // without them it must stop
		for _, name := range []string{"level.json", "known.json"} {
			if _, err := os.Stat(filepath.Join(node.DataDir, name)); err != nil {
				return err
			}
		}
		return nil
	})
	var limit unix.Rlimit
	if err := unix.Prlimit(node.Process().Pid, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		t.Fatal(err)
	}
	few := limit
	few.Cur = 3
	if err := unix.Prlimit(node.Process().Pid, unix.RLIMIT_NOFILE, &few, nil); err != nil {
		t.Fatal(err)
	}
	cluster.Await(t, "it reports that it cannot check its app", func() error {
		if out := node.Process().Output(1000); !strings.Contains(out, "app check skipped: resources exhausted") {
			return errors.New(out)
		}
		return nil
	})
	failing := c.Others(node)[0]
	failing.App.SetUnhealthy(t, true)
	failing.AwaitStatus(t, "its app is unhealthy", func(status cluster.Status) bool { return hasFinding(status, diagnosis.AppUnhealthy) })
	shardMap, err := failing.Map(t.Context())
	must(t, err)
	if err := unix.Prlimit(node.Process().Pid, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	failing.App.SetUnhealthy(t, false)
	for _, shardMap := range []cluster.Map{shardMap, c.AwaitServing(t)} {
		for shard := range shards {
			if before.Owner(shard) == node.ID && shardMap.Owner(shard) != node.ID {
				t.Errorf("shard %d moved from %s in map %d", shard, node.ID, shardMap.Epoch)
			}
		}
	}
}
