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
