//go:build linux

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"shardway/diagnosis"
	"shardway/e2e/kit/cluster"
)

// TestShardsLeaveAppThatDoesNotAcquire uncordons a node while every app responds to
// acquire with 500. Every node reports the outage, and `status` exits with 3. When the
// other two apps acquire again, their nodes own all shards, and every key is served. When
// the third app does, its node regains its share.
func TestShardsLeaveAppThatDoesNotAcquire(t *testing.T) {
	t.Parallel() // it waits for back-offs most of the time
	c := startWithCounters(t, 3, []string{"--through"}, "--queue-wait", "30s")
	n, at := c.Node("c"), c.Node("b")
	share := countOwned(c.AwaitServing(t), n)
	if out, code := shardway(t, "drain", n.ID, "--wait", "--admin", at.Admin); code != 0 {
		t.Fatalf("drain: exit %d, %s", code, out)
	}
	for _, x := range c.Running() {
		x.App.SetHookFault(t, "acquire", "500")
	}
	if out, code := shardway(t, "uncordon", n.ID, "--admin", at.Admin); code != 0 {
		t.Fatalf("uncordon: exit %d, %s", code, out)
	}
	for _, x := range c.Running() {
		cluster.AwaitFor(t, time.Minute, x.ID+" reports the outage, and status ends with 3", func() error {
			out, code := shardway(t, "status", "--admin", x.Admin)
			if code != 3 || !strings.Contains(out, "OUTAGE acquiring: the app of node ") {
				return fmt.Errorf("exit %d, %s", code, out)
			}
			return nil
		})
	}
	c.Node("a").App.SetHookFault(t, "acquire", "none")
	at.App.SetHookFault(t, "acquire", "none")
	c.AwaitShards(t, c.Node("a"), at)
	counts := map[string]uint64{}
	for _, key := range []string{"k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8"} {
		postAndCount(t, c, n, counts, 1, key)
	}
	for _, x := range c.Running() {
		diagnosisTest{t, c}.wantFinding(x, diagnosis.Acquiring, "the app of node c acquires no shards, so the node gets none")
	}
	n.App.SetHookFault(t, "acquire", "none")
	cluster.AwaitFor(t, 3*time.Minute, "c owns its share", func() error {
		shardMap, err := at.Map(t.Context())
		if err == nil && countOwned(shardMap, n) < share-1 {
			err = fmt.Errorf("it owns %d of %d", countOwned(shardMap, n), share)
		}
		return err
	})
	c.AwaitServing(t)
	for _, key := range []string{"k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8"} {
		postAndCount(t, c, n, counts, 1, key)
	}
}

// countOwned returns the number of shards of a node.
func countOwned(shardMap cluster.Map, node *cluster.Node) (owned int) {
	for shard := range shards {
		if shardMap.Owner(shard) == node.ID {
			owned++
		}
	}
	return owned
}
