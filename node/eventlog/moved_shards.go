package eventlog

import (
	"cmp"
	"slices"

	"shardway/event"
	"shardway/shardmap"
)

// recordMovedShardsLocked records the shards whose owners in the maps previous and current differ, if any. Both are
// committed maps. mu must be held.
func (c *MapChangeRecorder) recordMovedShardsLocked(previous, current *shardmap.Map) {
	lists := movedShards(previous, current)
	if len(lists) == 0 {
		return
	}
	var change event.Change
	reason := ""
	if current.Epoch() == c.open.epoch && uint64(previous.Epoch()) == c.open.change.Base {
		change, reason = c.open.change, c.open.reason
	} else {
		change = c.compare(previous, current)
	}
	c.options.Ring.Add(event.Event{Kind: event.ShardsMoved, Epoch: uint64(current.Epoch()), Reason: reason, Change: &change, Shards: lists})
}

// movedShards returns the shards whose owners in base and next differ, by pairs of owners. Pairs with the most
// shards come first.
func movedShards(base, next *shardmap.Map) []event.MovedShards {
	shards := map[event.ShardMoves][]uint16{} // by the owners From and To
	numbers := instanceNumbers{base.HasInstances() || next.HasInstances()}
	for _, move := range shardmap.Diff(base, next) {
		owners := event.ShardMoves{From: string(move.From), FromInstance: numbers.from(move), To: string(move.To), ToInstance: numbers.to(move)}
		shards[owners] = append(shards[owners], uint16(move.Shard)) // a cluster has up to 65,536 shards
	}
	lists := make([]event.MovedShards, 0, len(shards))
	for owners, numbers := range shards {
		lists = append(lists, event.MovedShards{
			From: owners.From, FromInstance: owners.FromInstance, To: owners.To, ToInstance: owners.ToInstance, Shards: slices.Clone(numbers), // without spare capacity
		})
	}
	slices.SortFunc(lists, func(a, b event.MovedShards) int {
		return cmp.Or(
			cmp.Compare(len(b.Shards), len(a.Shards)), cmp.Compare(a.From, b.From), cmp.Compare(a.FromInstance, b.FromInstance),
			cmp.Compare(a.To, b.To), cmp.Compare(a.ToInstance, b.ToInstance),
		)
	})
	return lists
}

// instanceNumbers returns the numbers of app instances for moves. includeInstances is set if a node has several
// instances; otherwise all numbers are zero.
type instanceNumbers struct{ includeInstances bool }

// from returns the number of the instance that a shard leaves; zero means none.
func (in instanceNumbers) from(move shardmap.Move) int {
	if !in.includeInstances || move.From == "" {
		return 0
	}
	return move.FromInstance.Number()
}

// to returns the number of the instance that receives a shard; zero means none.
func (in instanceNumbers) to(move shardmap.Move) int {
	if !in.includeInstances || move.To == "" {
		return 0
	}
	return move.ToInstance.Number()
}
