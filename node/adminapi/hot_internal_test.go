package adminapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"shardway/admin/api"
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

// A shard that the reporting node no longer owns has no instance. Without several instances at a node, there are no
// numbers.
func TestSetOwnersOfLoads(t *testing.T) {
	list := func(m *shardmap.Map) string {
		hot := api.HotList{Keys: []api.HotKey{{Shard: 1}, {Shard: 9}}, Limited: []api.HotKey{{Shard: 0}}}
		for shard := range uint32(4) {
			hot.Shards = append(hot.Shards, api.HotShard{Shard: shard, Node: "a"}, api.HotShard{Shard: shard, Node: "b"})
		}
		setOwners(&hot, m)
		var text []string
		for _, shard := range hot.Shards {
			if owner := string(m.Owner(shardmap.Shard(shard.Shard))); (shard.Instance != 0) != (owner == shard.Node && m.HasInstances()) {
				t.Errorf("shard %d of %s has instance %d of %s", shard.Shard, owner, shard.Instance, shard.Node)
			}
			if shard.Instance != 0 {
				text = append(text, fmt.Sprintf("%s/%d", shard.Node, shard.Instance))
			}
		}
		slices.Sort(text)
		for _, key := range slices.Concat(hot.Keys, hot.Limited) {
			owner := ""
			if int(key.Shard) < m.Len() {
				owner = string(m.Owner(shardmap.Shard(key.Shard)))
			}
			if key.Node != owner || (key.Instance != 0) != (owner != "" && m.HasInstances()) {
				t.Errorf("key of shard %d: %s/%d, owner %s", key.Shard, key.Node, key.Instance, owner)
			}
		}
		return strings.Join(text, " ")
	}
	members := []shardmap.Member{{ID: "a", Weight: 1}, {ID: "b", Weight: 1}}
	if got := list(shardmap.Assign(shardmap.New(4), members, shardmap.Policy{})); got != "" {
		t.Errorf("instances %q without several at a node", got)
	}
	members[1].Instances = 1 | 2
	if got := list(shardmap.Assign(shardmap.New(4), members, shardmap.Policy{})); got != "a/1 a/1 b/1 b/2" {
		t.Errorf("instances %q", got)
	}
	if got := list(shardmap.New(4)); got != "" {
		t.Errorf("instances %q of orphaned shards", got)
	}
}
