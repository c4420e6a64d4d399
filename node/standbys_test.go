package node_test

import (
	"slices"
	"testing"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/node"
	"shardway/shardmap"
)

// All nodes compute the same standbys. After a crash, the first standby owns each shard of the crashed node.
func TestStandbysTakeOverShardsOfACrashedNode(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		zones := map[string]string{"a": "east", "b": "east", "c": "west", "d": "west"}
		names := []string{"a", "b", "c", "d"}
		w.tune = func(o *node.Options) {
			o.Replicas, o.Zone = map[string]int{ack.DefaultService: 1}, zones[names[len(w.names)-1]]
		}
		for _, name := range names {
			w.start(name)
		}
		w.untilSettled(names...)
		w.untilVoters(4)
		before, standbys := w.committed(), map[shardmap.Shard]string{}
		for shard := range shardmap.Shard(shards) {
			owner := string(before.Owner(shard))
			for _, name := range names {
				located := w.all[name].node.API().ShardStandbys(uint32(shard))
				if len(located.Standbys) != 1 || zones[located.Standbys[0].ID] == zones[owner] || standbys[shard] != "" && standbys[shard] != located.Standbys[0].ID {
					t.Fatalf("%s returns standbys %v of shard %d, owner %s", name, located.Standbys, shard, owner)
				}
				standbys[shard] = located.Standbys[0].ID
				for _, other := range located.NotStandbys {
					if other.Reason != api.ReasonTooManyReplicas || other.Node == owner {
						t.Fatalf("%s returns %+v of shard %d, owner %s", name, located.NotStandbys, shard, owner)
					}
				}
			}
			if inMap := w.all["a"].node.API().MapWithStandbys(); inMap.Nodes[inMap.Standbys[shard][0]].ID != standbys[shard] {
				t.Fatalf("the map has standbys %v of shard %d, want %s", inMap.Standbys[shard], shard, standbys[shard])
			}
			if got := w.all["b"].node.StandbysOf(int(shard)); len(got) != 1 || string(got[0]) != standbys[shard] {
				t.Fatalf("StandbysOf(%d) = %v, want %s", shard, got, standbys[shard])
			}
		}
		w.asks(w.leader(), api.Action{Verb: api.Cordon, Node: "a"})
		untilReason := func(shard shardmap.Shard, name, reason string) {
			t.Helper()
			w.until(name+" is no standby because of "+reason, func() bool {
				located := w.all["b"].node.API().ShardStandbys(uint32(shard))
				return slices.Contains(located.NotStandbys, api.NotStandby{Node: name, Reason: reason})
			})
		}
		untilReason(slices.Collect(before.Shards("c"))[0], "a", api.ReasonDraining)
		w.asks(w.leader(), api.Action{Verb: api.Uncordon, Node: "a"})
		untilReason(slices.Collect(before.Shards("c"))[0], "d", api.ReasonTooManyReplicas)
		w.until("a is not cordoned", func() bool { return len(w.all["d"].node.State().Policy().Cordoned) == 0 })
		w.all["d"].kill()
		var taken *shardmap.Map
		w.until("the shards have other owners", func() bool {
			taken = w.committed()
			return taken.ShardCount("d") == 0
		})
		for shard := range before.Shards("d") {
			if got := string(taken.Owner(shard)); got != standbys[shard] {
				t.Errorf("shard %d went to %s, want its standby %s", shard, got, standbys[shard])
			}
		}
		w.untilSettled("a", "b", "c")
		untilReason(0, "d", api.ReasonUnknown)
	})
}

// The node alone in its zone owns half of the shards.
func TestShardsAreSpreadOverZones(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) {
			o.SpreadZones, o.Zone = true, map[string]string{"a": "east", "b": "east", "c": "west"}[w.names[len(w.names)-1]]
		}
		for _, name := range []string{"a", "b", "c"} {
			w.start(name)
		}
		w.until("both zones have the same number of shards", func() bool {
			return w.settled("a", "b", "c") && w.committed().ShardCount("c") == shards/2 && w.committed().ShardCount("a") == shards/4
		})
	})
}
