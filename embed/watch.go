package embed

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"shardway/shardmap"
)

// Shard is a shard that this node serves or has served.
type Shard struct {
	Number int
	Epoch  uint64 // ownership epoch
}

// Change has the shards that this node has gained and lost since the previous Change, sorted by
// number. A shard that was lost and has returned with another epoch is in both lists.
type Change struct {
	Gained, Lost []Shard
}

// Owned returns the shards that this node serves, sorted by number. A shard that is moving away is
// omitted as soon as the node admits no more requests for it; its handlers may still be running.
// Leases are not taken into account.
func (n *Node) Owned() []Shard {
	owned, _ := n.process.Node().Owned()
	return sortedShards(owned)
}

// Watch yields changes of Owned: first all shards, then each change. Changes during an iteration
// of the loop are combined. It ends when ctx ends or the loop stops.
//
// A request for a shard may arrive before the Change that contains the shard. An app that keeps
// state by shard should compare the epoch of the request, and treat Lost as a hint to discard
// state.
func (n *Node) Watch(ctx context.Context) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		previous := map[shardmap.Shard]uint64{}
		for first := true; ; first = false {
			owned, generation := n.process.Node().Owned()
			change := diff(previous, owned)
			previous = owned
			isEmpty := len(change.Gained)+len(change.Lost) == 0
			if (first || !isEmpty) && !yield(change) {
				return
			}
			if !n.process.Node().WaitOwned(ctx, generation) {
				return
			}
		}
	}
}

// diff returns the shards that are only in current, and those that are only in previous.
func diff(previous, current map[shardmap.Shard]uint64) Change {
	return Change{Gained: sortedShards(subtract(current, previous)), Lost: sortedShards(subtract(previous, current))}
}

// subtract returns the shards of all that others does not have with the same epoch.
func subtract(all, others map[shardmap.Shard]uint64) map[shardmap.Shard]uint64 {
	remaining := map[shardmap.Shard]uint64{}
	for shard, epoch := range all {
		if other, ok := others[shard]; !ok || other != epoch {
			remaining[shard] = epoch
		}
	}
	return remaining
}

// sortedShards returns the shards sorted by number.
func sortedShards(shards map[shardmap.Shard]uint64) []Shard {
	list := make([]Shard, 0, len(shards))
	for shard, epoch := range shards {
		list = append(list, Shard{Number: int(shard), Epoch: epoch})
	}
	slices.SortFunc(list, func(a, b Shard) int { return cmp.Compare(a.Number, b.Number) })
	return list
}
