//go:build linux

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"shardway/diagnosis"
)

// TestFailedReleaseIsReported drains a node whose app does not release: it responds with
// 500 or "failed", or never. The drain waits for --release-timeout, `drain --wait` prints
// the number of shards and exits with 1, and every node reports it. An app that does not
// hold the shards lists them in "absent": they move at once, and the drain exits with 0.
func TestFailedReleaseIsReported(t *testing.T) {
	t.Parallel() // it waits for timeouts most of the time
	c := startWithCounters(t, 3, []string{"--through"}, "--release-timeout", "1s")
	from, at := c.Node("a"), c.Node("b")
	for _, tt := range []struct{ how, why, result string }{
		{"500", "status 500", "failed"}, {"unable", "told to fail", "failed"}, {"hang", "in time", "late"}, {"absent", "", "ok"}, {"none", "", "ok"},
	} {
		owned := 0
		shardMap := c.AwaitServing(t)
		for shard := range shards {
			if shardMap.Owner(shard) == from.ID {
				owned++
			}
		}
		from.App.SetHookFault(t, "release", tt.how)
		out, code := shardway(t, "drain", from.ID, "--wait", "--admin", at.Admin)
		unreleased := fmt.Sprintf("node a owns nothing, but %d shards went unreleased: ", owned)
		if failed := tt.why != ""; failed != (code == 1) || failed != strings.Contains(out, unreleased) || !strings.Contains(out, tt.why) {
			t.Errorf("drain while the app releases with %s: exit %d, %s", tt.how, code, out)
		}
		if tt.why != "" {
			for _, node := range c.Running() {
				diagnosisTest{t, c}.wantFinding(node, diagnosis.NotReleased, "moved within the last 10 minutes although the app of node a had not released them")
			}
		}
		if metrics, err := from.Metrics(t.Context()); err != nil || metrics.Sum("shardway_releases_total", fmt.Sprintf("result=%q", tt.result)) == 0 {
			t.Errorf("%s: no metric of releases that are %s (%v)", tt.how, tt.result, err)
		}
		from.App.SetHookFault(t, "release", "none")
		if out, code := shardway(t, "uncordon", from.ID, "--admin", from.Admin); code != 0 {
			t.Fatalf("uncordon: exit %d, %s", code, out)
		}
	}
	log := from.Process().Output(1_000_000)
	for _, line := range []string{`"release failed"`, `"shards moved without release"`} {
		if !strings.Contains(log, line) {
			t.Errorf("the log of node a has no line %s", line)
		}
	}
}

// TestSafeDrainLeavesUnreleasedShards drains a node with --safe while its app does not
// release. Its shards stay and are served there, and `drain --wait` exits with 1 and the
// reason of the app. When the app releases again, the same drain moves them.
func TestSafeDrainLeavesUnreleasedShards(t *testing.T) {
	t.Parallel() // it waits for timeouts most of the time
	c := startWithCounters(t, 3, []string{"--through"})
	from, at := c.Node("a"), c.Node("b")
	owned := countOwned(c.AwaitServing(t), from)
	from.App.SetHookFault(t, "release", "unable")
	out, code := shardway(t, "drain", from.ID, "--safe", "--release-timeout", "1s", "--wait", "--admin", at.Admin)
	if want := fmt.Sprintf("%d shards", owned); code != 1 || !strings.Contains(out, want) || !strings.Contains(out, "the app has not released them") || !strings.Contains(out, "told to fail") {
		t.Errorf("drain --safe: exit %d, %s", code, out)
	}
	if shardMap, err := at.Map(t.Context()); err != nil || countOwned(shardMap, from) != owned {
		t.Errorf("node a owns %d shards, want %d (%v)", countOwned(shardMap, from), owned, err)
	}
	from.App.SetHookFault(t, "release", "none")
	if out, code = shardway(t, "drain", from.ID, "--safe", "--wait", "--admin", at.Admin); code != 0 {
		t.Errorf("drain --safe once more: exit %d, %s", code, out)
	}
	c.AwaitShards(t, c.Others(from)...)
}
