package embed

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"shardway/shardmap"
)

// Shard is one that this node serves, or has served.
type Shard struct {
	Number int
	Epoch  uint64 // the ownership epoch
}

// Change is what this node has gained and lost since the last one, in the order of the
// numbers. A shard that was lost and has come back with another epoch is in both.
type Change struct {
	Gained, Lost []Shard
}

// Owned returns the shards that this node serves, in order. A shard that moves away is
// not among them from the moment that no request is admitted for it any more; its
// handlers may still run. Leases do not count.
func (n *Node) Owned() []Shard {
	owned, _ := n.p.Node().Owned()
	return sorted(owned)
}

// Watch yields what changes of Owned: first all there is, then each change, those that
// came while the loop was busy in one. It ends with ctx, or with the loop.
//
// Requests for a shard may be there before its Change is: who keeps state by shard
// looks at the epoch of the request, and takes Lost as a hint to forget.
func (n *Node) Watch(ctx context.Context) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		last := map[shardmap.Shard]uint64{}
		for first := true; ; first = false {
			owned, generation := n.p.Node().Owned()
			c := difference(last, owned)
			last = owned
			if (first || len(c.Gained)+len(c.Lost) > 0) && !yield(c) {
				return
			}
			if !n.p.Node().WaitOwned(ctx, generation) {
				return
			}
		}
	}
}

// difference tells what is only in one of the two.
func difference(was, is map[shardmap.Shard]uint64) Change {
	return Change{Gained: sorted(without(is, was)), Lost: sorted(without(was, is))}
}

func without(all, others map[shardmap.Shard]uint64) map[shardmap.Shard]uint64 {
	rest := map[shardmap.Shard]uint64{}
	for s, epoch := range all {
		if other, ok := others[s]; !ok || other != epoch {
			rest[s] = epoch
		}
	}
	return rest
}

func sorted(shards map[shardmap.Shard]uint64) []Shard {
	list := make([]Shard, 0, len(shards))
	for s, epoch := range shards {
		list = append(list, Shard{Number: int(s), Epoch: epoch})
	}
	slices.SortFunc(list, func(a, b Shard) int { return cmp.Compare(a.Number, b.Number) })
	return list
}
