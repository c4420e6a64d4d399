package node

import (
	"strings"
	"testing"
	"unicode/utf8"

	ackagent "shardway/ack/agent"
	"shardway/shardmap"
)

// The error text of an app is shown in terminals, logs and responses, so it is limited in length and has no line breaks.
func TestFailuresOfTheAppAreBounded(t *testing.T) {
	var f acquireFailures
	held := []ackagent.HeldShardView{{Shard: 3, Epoch: 7, Phase: ackagent.HookAcquiring, Err: "no\x1b[2J way\r\n" + strings.Repeat("é", 1000)}}
	for s := range shardmap.Shard(20) {
		held = append(held, ackagent.HeldShardView{Shard: 10 + s, Epoch: 7, Phase: ackagent.HookAcquiring, Err: "x"})
	}
	f.stale = true
	if fresh := f.update(func() []ackagent.HeldShardView { return held }); len(fresh) != 21 {
		t.Errorf("fresh: %v", fresh)
	}
	if why := f.reasonOf(3); len(why) > 300 || !utf8.ValidString(why) || !strings.HasPrefix(why, "no [2J way") || strings.ContainsAny(why, "\r\n\x1b") {
		t.Errorf("why: %q", why)
	}
	if shards, why := f.describe(shardmap.FormatShards); shards != "21 shards: 3, 10, 11, 12, 13, 14, 15, 16, …" || !strings.HasPrefix(why, "no [2J way") {
		t.Errorf("named %q, %q", shards, why)
	}
}

// A failed acquire is logged once for each shard and epoch, however often it is repeated. The record is dropped once the shard is served or
// has moved away.
func TestFailedAcquireIsLoggedOnce(t *testing.T) {
	var f acquireFailures
	for i, step := range []struct {
		held  []ackagent.HeldShardView
		fresh int
		why   string
	}{
		{[]ackagent.HeldShardView{{Shard: 1, Epoch: 7, Phase: ackagent.HookAcquiring}}, 0, ""},
		{[]ackagent.HeldShardView{{Shard: 1, Epoch: 7, Phase: ackagent.HookAcquiring, Err: "a"}}, 1, "a"},
		{[]ackagent.HeldShardView{{Shard: 1, Epoch: 7, Phase: ackagent.HookAcquiring, Err: "b"}}, 0, "b"},
		{[]ackagent.HeldShardView{{Shard: 1, Epoch: 7, Phase: ackagent.HookServing}}, 0, ""},
		{[]ackagent.HeldShardView{{Shard: 1, Epoch: 7, Phase: ackagent.HookReleasing, Err: "c"}}, 0, ""},
		{nil, 0, ""},
		{[]ackagent.HeldShardView{{Shard: 1, Epoch: 9, Phase: ackagent.HookAcquiring, Err: "a"}}, 1, "a"},
	} {
		f.stale = true
		fresh := f.update(func() []ackagent.HeldShardView { return step.held })
		if shards, why := f.describe(shardmap.FormatShards); len(fresh) != step.fresh || f.reasonOf(1) != step.why || why != step.why || (shards == "") != (step.why == "") {
			t.Errorf("step %d: fresh %v, why %q, named %q, %q", i, fresh, f.reasonOf(1), shards, why)
		}
	}
	if f.update(func() []ackagent.HeldShardView { t.Error("asked though nothing is new"); return nil }) != nil {
		t.Error("something is new")
	}
}
