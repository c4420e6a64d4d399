package appinstance

import (
	"testing"

	"shardway/shardmap"
)

// A number gets another address only if no shard belongs to it: otherwise the shard would change its app
// process without another ownership epoch.
func TestNumberIsReusedOnlyWithoutShards(t *testing.T) {
	assign := func(prev *shardmap.Map, instances shardmap.InstanceSet, policy shardmap.Policy) *shardmap.Map {
		return shardmap.Assign(prev, []shardmap.Member{{ID: "a", Weight: 1}, {ID: "b", Weight: 1, Instances: instances}}, policy)
	}
	both := assign(shardmap.New(8), shardmap.InstancesUpTo(2), shardmap.Policy{})
	if both.InstanceCount("b", 1) == 0 {
		t.Fatal("the second instance owns no shards")
	}
	// The node has removed the instance, but its shards stay while the node restarts.
	staying := assign(both, shardmap.InstancesUpTo(1), shardmap.Policy{Restarting: map[shardmap.NodeID]bool{"b": true}})
	moved := assign(both, shardmap.InstancesUpTo(1), shardmap.Policy{})
	// The instance owns no shards, but the next map may give it some.
	before := shardmap.Assign(shardmap.New(8), []shardmap.Member{{ID: "b", Weight: 1}}, shardmap.Policy{})
	joined := assign(before, shardmap.InstancesUpTo(2), shardmap.Policy{Paused: true})
	if staying.InstanceCount("b", 1) == 0 || joined.InstanceCount("b", 1) != 0 {
		t.Fatalf("instance 2 owns %d and %d shards", staying.InstanceCount("b", 1), joined.InstanceCount("b", 1))
	}
	for _, test := range []struct {
		name     string
		shardMap *shardmap.Map
		want     bool
	}{
		{"owns shards", both, false},
		{"its shards stay", staying, false},
		{"may own shards", joined, false},
		{"its shards have moved", moved, true},
		{"no map", shardmap.New(8), true},
	} {
		if got := mayReuse(test.shardMap, "b", 1); got != test.want {
			t.Errorf("%s: may be reused %v, want %v", test.name, got, test.want)
		}
	}
}
