//go:build linux

package e2e_test

import (
	"strings"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/load"
)

// TestShardWithHoldHeaderMovesLast makes the app hold one shard. A drain with
// --idle-first moves all other shards, reports the remaining one, and moves it when the
// app ends the hold, or at the end of the hold time.
func TestShardWithHoldHeaderMovesLast(t *testing.T) {
	t.Parallel() // it waits for drains most of the time
	c := start(t, 3)
	node := c.Follower(t)
	other := c.Others(node)[0]
	key := c.AwaitServing(t).Keys(node.ID, 1)[0]
	// hold sends the header through another node, and checks the response of the owner to
	// it.
	hold := func(seconds string) {
		t.Helper()
		resp := c.SendAsync(t, other, load.Request{Key: key, Method: "POST", Header: map[string]string{"App-Hold": seconds}}).Response(t)
		if !resp.OK() {
			t.Fatalf("Shardway-Hold: %s: %d %s", seconds, resp.Status, resp.Error)
		}
	}
	owns := func(want int) {
		t.Helper()
		other.AwaitStatus(t, "the shards of "+node.ID, func(status cluster.Status) bool { return status.Member(node.ID).Shards == want })
	}
	hold("600")
	if out, code := shardway(t, "status", "--json", "--admin", node.Admin); code != 0 || !strings.Contains(strings.ReplaceAll(out, " ", ""), `"held":1`) {
		t.Errorf("status: exit %d, %s", code, out)
	}
	out, code := shardway(t, "drain", node.ID, "--idle-first", "10m", "--wait", "--timeout", "5s", "--admin", other.Admin)
	if code != 1 || !strings.Contains(out, "1 shard (1 held by the app), 0 requests, 0 WebSockets left") {
		t.Errorf("drain: exit %d, %s", code, out)
	}
	owns(1)
	hold("0")
	owns(0)
	if out, code := shardway(t, "uncordon", node.ID, "--admin", node.Admin); code != 0 {
		t.Fatalf("uncordon: exit %d, %s", code, out)
	}
	key = c.AwaitServing(t).Keys(node.ID, 1)[0]
	hold("600")
	if out, code := shardway(t, "drain", node.ID, "--idle-first", "3s", "--wait", "--admin", other.Admin); code != 0 {
		t.Errorf("a hold keeps the shard beyond the time of the drain: exit %d, %s", code, out)
	}
	owns(0)
}
