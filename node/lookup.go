package node

import (
	"context"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/node/gossip"
	"shardway/proxy/route"
	"shardway/shardmap"
)

// ID returns the ID of this node.
func (n *Node) ID() string { return string(n.self) }

// Place is the shard of a key and its owner.
type Place struct {
	Shard shardmap.Shard  // number within the service default
	Owner shardmap.NodeID // empty means that the shard has no owner
	Epoch uint64          // the ownership epoch; zero means that the shard has no owner
}

// Place returns the shard of a key and its owner in the last map that this node has applied. It does not
// consider leases: an owner without a lease is still the owner. The key belongs to the service default, as for all methods
// of this file, and shard numbers count from its first shard.
func (n *Node) Place(key []byte) Place {
	state := n.router.State()
	committed, service := state.Committed(), n.defaultService(state)
	if service.Shards == 0 {
		return Place{} // the cluster has no service default
	}
	number := shardmap.ShardOfBytes(key, service.Shards)
	shard := service.First + number
	if committed.Epoch() == 0 || committed.Owner(shard) == "" {
		return Place{Shard: number}
	}
	return Place{Shard: number, Owner: committed.Owner(shard), Epoch: uint64(committed.OwnedSince(shard))}
}

// defaultService returns the range of the service default, which an app in the process of the node runs. The number of its
// shards is zero if the cluster does not have the service.
func (n *Node) defaultService(state *ack.State) ack.Service {
	if !state.HasServices() {
		return ack.Service{Name: ack.DefaultService, Shards: n.options.Shards}
	}
	service, _ := state.Service(ack.DefaultService)
	return service
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
	service := n.defaultService(state)
	for i := range service.Shards {
		number := shardmap.Shard(i)
		shard := service.First + number
		movesAway := state.HasOpenProposal() && !state.Proposed().HasSameOwner(committed, shard)
		if committed.Owner(shard) == n.self && !movesAway {
			owned[number] = uint64(committed.OwnedSince(shard))
		}
	}
	return owned, generation
}

// WaitOwned waits for a routing table with a greater generation. It returns false if ctx ends first.
func (n *Node) WaitOwned(ctx context.Context, generation uint64) bool {
	return n.router.AwaitTable(ctx, func(table *route.Table) bool { return table.Generation() > generation })
}

// OwnerOf returns the owner of a shard in the last map that this node has applied. It is empty if the shard has no owner,
// or does not exist.
func (n *Node) OwnerOf(shard int) shardmap.NodeID {
	state := n.router.State()
	return ownerIn(state.Committed(), n.defaultService(state), shard)
}

// ownerIn returns the owner of a shard of a service in a map. It is empty if the shard has no owner, or does not exist.
func ownerIn(committed *shardmap.Map, service ack.Service, number int) shardmap.NodeID {
	if number < 0 || number >= service.Shards {
		return ""
	}
	return committed.Owner(service.First + shardmap.Shard(number))
}

// StandbysOf returns the nodes that take over a shard after a failure of its owner, the next owner first, according to
// the map of OwnerOf. The result is empty if the shard has no owner, or does not exist.
func (n *Node) StandbysOf(shard int) []shardmap.NodeID {
	state := n.router.State()
	service := n.defaultService(state)
	if shard < 0 || shard >= service.Shards {
		return nil
	}
	return n.view.Standbys(state, n.options.Replicas).Of(service.First + shardmap.Shard(shard))
}

// IsOwner reports whether this node owns a shard, has a lease, and still admits requests for the shard.
func (n *Node) IsOwner(shard int) bool {
	state := n.router.State()
	service := n.defaultService(state)
	if ownerIn(state.Committed(), service, shard) != n.self || n.router.LeaseLeft() <= 0 {
		return false
	}
	return !state.HasOpenProposal() || state.Proposed().HasSameOwner(state.Committed(), service.First+shardmap.Shard(shard))
}

// Nodes returns all nodes that this node knows, sorted by ID. It sends no request to the leader, so it works without
// one. The node must have started.
func (n *Node) Nodes() []api.Node {
	state := n.router.State()
	nodes := n.api.Nodes(state, nil)
	for i := range nodes {
		if state.Restarting(shardmap.NodeID(nodes[i].ID)) {
			nodes[i].State = "restarting"
		}
	}
	return nodes
}

// PresentNodes returns the nodes whose processes run according to gossip. The events of nodes report the same set.
func (n *Node) PresentNodes() (nodes []string) {
	for _, member := range n.gossip.Members() {
		if member.Node && (member.Status == gossip.Alive || member.Status == gossip.Leaving) {
			nodes = append(nodes, member.ID)
		}
	}
	return nodes
}

// MapEpochs returns the epochs of the newest proposed map and of the committed map.
func (n *Node) MapEpochs() (proposed, committed uint64) {
	state := n.router.State()
	return uint64(state.Proposed().Epoch()), uint64(state.Committed().Epoch())
}

// ClusterState returns the state of the cluster, which is also in the events. isKnown is false before the first
// check of the cluster has finished.
func (n *Node) ClusterState() (state string, isKnown bool) {
	current := n.monitor.Result().ClusterState
	return current.String(), current != 0
}
