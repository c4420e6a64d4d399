package shardmap_test

import (
	"testing"

	"shardway/shardmap"
)

func TestAssignedShardsArePlacedFirst(t *testing.T) {
	type ids = map[shardmap.NodeID]bool
	ab := assignNext(shardmap.New(12), equalMembers("a", "b"))
	all := func(node shardmap.NodeID) map[shardmap.Shard]shardmap.NodeID {
		assigned := map[shardmap.Shard]shardmap.NodeID{}
		for shard := range shardmap.Shard(12) {
			assigned[shard] = node
		}
		return assigned
	}
	for name, test := range map[string]struct {
		policy shardmap.Policy
		a, b   int
	}{
		"to an emptied member":       {shardmap.Policy{Emptied: ids{"a": true}, Assigned: all("a")}, 12, 0},
		"to a cordoned member":       {shardmap.Policy{Cordoned: ids{"a": true, "b": true}, Assigned: all("b")}, 0, 12},
		"against a pin":              {shardmap.Policy{Pins: map[shardmap.Shard]shardmap.Pin{0: {Node: "a"}}, Assigned: all("b")}, 0, 12},
		"not during a pause":         {shardmap.Policy{Paused: true, Assigned: all("b")}, 6, 6},
		"not from an absent member":  {shardmap.Policy{Restarting: ids{"a": true}, Assigned: all("b")}, 6, 6},
		"not to an absent member":    {shardmap.Policy{Restarting: ids{"a": true}, Assigned: all("a")}, 6, 6},
		"not to another node":        {shardmap.Policy{Assigned: all("x")}, 6, 6},
		"and the others are as even": {shardmap.Policy{Assigned: map[shardmap.Shard]shardmap.NodeID{0: "a", 1: "a", 99: "b"}}, 6, 6},
	} {
		t.Run(name, func(t *testing.T) {
			got := shardmap.Assign(ab, equalMembers("a", "b"), test.policy)
			if got.ShardCount("a") != test.a || got.ShardCount("b") != test.b {
				t.Errorf("a owns %d and b %d, want %d and %d", got.ShardCount("a"), got.ShardCount("b"), test.a, test.b)
			}
			if again := shardmap.Assign(got, equalMembers("a", "b"), test.policy); again.Digest() != got.Digest() {
				t.Errorf("once more: %v", shardmap.Diff(got, again))
			}
		})
	}
}
