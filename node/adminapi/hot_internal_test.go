package adminapi

import (
	"testing"

	"shardway/proxy/loadstats"
	"shardway/shardmap"
)

// The loads of all nodes are merged: the loads of one key are added up, and a shard that has moved is listed at two nodes for a while.
func TestLoadsArePutTogether(t *testing.T) {
	loads := map[string]loadstats.Load{}
	for i, node := range []string{"a", "b"} {
		l := loadstats.Load{Shards: []loadstats.ShardLoad{{Shard: 7, Requests: 1, Busy: float64(i + 1)}}}
		for k := range 40 {
			l.Keys = append(l.Keys, loadstats.KeyLoad{Shard: shardmap.Shard(k), Hash: uint64(k), Requests: float64(40 - k)})
			l.Shards = append(l.Shards, loadstats.ShardLoad{Shard: shardmap.Shard(100 + k), Requests: 1})
		}
		l.Keys[0].Key = []string{"", "alice"}[i]
		loads[node] = l
	}
	got := mergeLoads(loads, []string{"c"})
	if len(got.Shards) != maxHotShards || got.Shards[0].Node != "b" || got.Shards[1].Node != "a" || got.Shards[0].Shard != 7 || got.Shards[1].Shard != 7 {
		t.Errorf("%d shards: %+v", len(got.Shards), got.Shards)
	}
	if len(got.Keys) != maxHotKeys || got.Keys[0].Requests != 80 || got.Keys[0].Key != "alice" || got.Keys[1].Hash != "0000000000000001" {
		t.Errorf("%d keys: %+v", len(got.Keys), got.Keys)
	}
	if len(got.Unresponsive) != 1 {
		t.Errorf("silent: %v", got.Unresponsive)
	}
	if none := mergeLoads(nil, nil); none.Shards == nil || none.Keys == nil {
		t.Error("an idle cluster has no lists")
	}
}
