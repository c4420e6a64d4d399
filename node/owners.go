package node

import (
	"context"

	"shardway/proxy/route"
	"shardway/shardmap"
)

// ID returns the node's id.
func (n *Node) ID() string { return string(n.self) }

// Place is where a key's shard is served.
type Place struct {
	Shard shardmap.Shard
	Owner shardmap.NodeID // empty: nobody
	Epoch uint64          // the ownership epoch; zero without an owner
}

// Place says where a key's shard is served by the last map this node has applied. It
// says nothing of leases: an owner that has lost its own still counts.
func (n *Node) Place(key []byte) Place {
	m := n.router.state.Load().Committed()
	s := shardmap.OfBytes(key, n.o.Shards)
	if m.Epoch() == 0 || m.Owner(s) == "" {
		return Place{Shard: s}
	}
	return Place{Shard: s, Owner: m.Owner(s), Epoch: uint64(m.OwnedSince(s))}
}

// Owned returns the shards that this node serves, with their ownership epochs, and the
// generation that WaitOwned goes on from. A shard that is about to move is not among
// them any more: no request is admitted for it. Leases do not count here either.
func (n *Node) Owned() (owned map[shardmap.Shard]uint64, generation uint64) {
	generation = n.router.table.Load().Generation() // before the state, which may be newer
	s := n.router.state.Load()
	m := s.Committed()
	owned = make(map[shardmap.Shard]uint64)
	if m.Epoch() == 0 {
		return owned, generation
	}
	for i := range n.o.Shards {
		sh := shardmap.Shard(i)
		if m.Owner(sh) == n.self && (!s.Open() || s.Last().Owner(sh) == n.self) {
			owned[sh] = uint64(m.OwnedSince(sh))
		}
	}
	return owned, generation
}

// WaitOwned waits until there is a newer table than that of a generation, and returns
// false when ctx ended first.
func (n *Node) WaitOwned(ctx context.Context, generation uint64) bool {
	return n.router.awaitTable(ctx, func(t *route.Table) bool { return t.Generation() > generation })
}
