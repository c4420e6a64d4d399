package eventlog

import (
	"cmp"
	"slices"

	"shardway/ack"
	"shardway/event"
	"shardway/shardmap"
)

// recordMovedShardsLocked records the shards whose owners in the committed map of state and in the committed map
// previous differ, if any. mu must be held.
func (c *MapChangeRecorder) recordMovedShardsLocked(previous *shardmap.Map, state *ack.State) {
	current := state.Committed()
	lists := movedByService(movedShards(previous, current), state)
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

// movedByService splits each list by the service of its shards. Without a list of services, it returns the lists
// unchanged.
func movedByService(lists []event.MovedShards, state *ack.State) []event.MovedShards {
	if !state.HasServices() {
		return lists
	}
	var split []event.MovedShards
	for _, list := range lists {
		for rest := list.Shards; len(rest) > 0; {
			part := list
			service, _ := state.ServiceOf(shardmap.Shard(rest[0])) // the zero value for a shard outside all ranges
			length := 1
			for length < len(rest) {
				if next, _ := state.ServiceOf(shardmap.Shard(rest[length])); next != service {
					break
				}
				length++
			}
			part.Shards, rest = slices.Clone(rest[:length]), rest[length:]
			part.Service, part.ServiceShards = service.Name, numbersIn(service, part.Shards)
			split = append(split, part)
		}
	}
	return split
}

// numbersIn returns the numbers of the shards within their service. It returns nil if the service is the zero value.
func numbersIn(service ack.Service, shards []uint16) []uint16 {
	if service.Name == "" {
		return nil
	}
	numbers := make([]uint16, len(shards))
	for i, shard := range shards {
		numbers[i] = shard - uint16(service.First)
	}
	return numbers
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
