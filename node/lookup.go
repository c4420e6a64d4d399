package node

import (
	"context"

	"shardway/proxy/route"
	"shardway/shardmap"
)

// ID returns the ID of this node.
func (n *Node) ID() string { return string(n.self) }

// Place is the shard of a key and its owner.
type Place struct {
	Shard shardmap.Shard
	Owner shardmap.NodeID // empty means that the shard has no owner
	Epoch uint64          // the ownership epoch; zero means that the shard has no owner
}

// Place returns the shard of a key and its owner in the last map that this node has applied. It does not
// consider leases: an owner without a lease is still the owner.
func (n *Node) Place(key []byte) Place {
	committed := n.router.State().Committed()
	shard := shardmap.ShardOfBytes(key, n.options.Shards)
	if committed.Epoch() == 0 || committed.Owner(shard) == "" {
		return Place{Shard: shard}
	}
	return Place{Shard: shard, Owner: committed.Owner(shard), Epoch: uint64(committed.OwnedSince(shard))}
}

// Owned returns the shards that this node owns, with their ownership epochs, and the generation of the
// routing table, for WaitOwned. A shard that the open proposal moves to another node is not included,
// because the node admits no more requests for it. Owned does not consider leases.
func (n *Node) Owned() (owned map[shardmap.Shard]uint64, generation uint64) {
	generation = n.router.Table().Generation() // read before the state, so that WaitOwned misses no change
	state := n.router.State()
	committed := state.Committed()
	owned = make(map[shardmap.Shard]uint64)
	if committed.Epoch() == 0 {
		return owned, generation
	}
	for i := range n.options.Shards {
		shard := shardmap.Shard(i)
		movesAway := state.HasOpenProposal() && !state.Proposed().HasSameOwner(committed, shard)
		if committed.Owner(shard) == n.self && !movesAway {
			owned[shard] = uint64(committed.OwnedSince(shard))
		}
	}
	return owned, generation
}

// WaitOwned waits for a routing table with a greater generation. It returns false if ctx ends first.
func (n *Node) WaitOwned(ctx context.Context, generation uint64) bool {
	return n.router.AwaitTable(ctx, func(table *route.Table) bool { return table.Generation() > generation })
}
