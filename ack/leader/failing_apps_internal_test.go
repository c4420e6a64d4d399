package leader

import (
	"testing"

	"shardway/shardmap"
)

// A shard that no app acquires stays with its owner, even if the shares are uneven.
func TestShardThatNoAppAcquiresStays(t *testing.T) {
	a, b := shardmap.Member{ID: "a", Weight: 1}, shardmap.Member{ID: "b", Weight: 1}
	base := shardmap.Assign(shardmap.New(4), []shardmap.Member{a}, shardmap.Policy{})
	members := []shardmap.Member{a, b}
	p := shardmap.Policy{Pins: map[shardmap.Shard]shardmap.Pin{}}
	for s := range shardmap.Shard(base.Len()) {
		avoid := map[shardmap.NodeID]bool{"a": true, "b": true}
		r := relocation{placement: &p, members: members, shardCounts: map[shardmap.NodeID]int{"a": 4, "b": 0}}
		to := r.target(s, "a", avoid)
		if to != "a" {
			t.Errorf("shard %d goes to %q, want it to stay on a", s, to)
		}
		if to != "" {
			p.Pins[s] = shardmap.Pin{Node: to}
		}
	}
	if moves := shardmap.Diff(base, shardmap.Assign(base, members, p)); len(moves) > 0 {
		t.Errorf("the next map moves %v, want no moves", moves)
	}
}

// A shard that an app fails to acquire does not move to a node of which each instance is drained, and
// does not stay there.
func TestFailingShardAvoidsNodeWithDrainedInstances(t *testing.T) {
	a, b, c := shardmap.Member{ID: "a", Weight: 1}, shardmap.Member{ID: "b", Weight: 1, Instances: shardmap.InstancesUpTo(2)}, shardmap.Member{ID: "c", Weight: 1}
	members := []shardmap.Member{a, b, c}
	base := shardmap.Assign(shardmap.New(8), []shardmap.Member{a, c}, shardmap.Policy{})
	p := shardmap.Policy{Drained: map[shardmap.NodeID]bool{"b/1": true, "b/2": true}}
	if to := newRelocation(&p, base, members).target(0, "a", map[shardmap.NodeID]bool{"a": true}); to != "c" {
		t.Errorf("a shard that a fails to acquire goes to %q, want c", to)
	}
	if to := newRelocation(&p, base, members).target(0, "b", map[shardmap.NodeID]bool{"a": true}); to != "c" {
		t.Errorf("a shard of b that a has failed to acquire goes to %q, want c", to)
	}
	delete(p.Drained, "b/2")
	if to := newRelocation(&p, base, members).target(0, "a", map[shardmap.NodeID]bool{"a": true}); to != "b" {
		t.Errorf("with one drained instance, the shard goes to %q, want b", to)
	}
}
