package adminapi

import (
	"slices"
	"sync"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/endpoints"
	"shardway/node/gossip"
	"shardway/shardmap"
)

// MapWithStandbys returns the committed shard map with the standbys of each shard.
func (a *API) MapWithStandbys() api.Map {
	state := a.options.Router.State()
	result := a.mapOf(state)
	result.Standbys = a.standbyCache.indexes(a.options.View.Standbys(state, a.options.Replicas), len(result.Owners))
	return result
}

// standbyCache contains the last list of the standbys of all shards. All clients get the same list, and its
// computation takes up to some seconds in the largest clusters.
type standbyCache struct {
	mu sync.Mutex // held during a computation, so that concurrent requests share it
	// mu protects the following fields.
	standbys *shardmap.Standbys // nil means that list is not set
	list     [][]int
}

// indexes returns the standbys of the shards, as indexes in the members of the map. The result must not be modified.
func (c *standbyCache) indexes(standbys *shardmap.Standbys, shards int) [][]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.standbys != nil && c.standbys.Equal(standbys) && len(c.list) == shards {
		return c.list
	}
	c.standbys, c.list = standbys, make([][]int, shards)
	for i := range c.list {
		c.list[i] = standbys.Indexes(shardmap.Shard(i))
	}
	return c.list
}

// ShardStandbys returns the standbys of a shard, and why the other nodes are not among them. It returns nil if the
// shard should have no standbys.
func (a *API) ShardStandbys(shard uint32) *api.ShardStandbys {
	state := a.options.Router.State()
	standbys := a.options.View.Standbys(state, a.options.Replicas)
	if standbys.Replicas(shardmap.Shard(shard)) == 0 {
		return nil
	}
	result, chosen, directory := &api.ShardStandbys{}, standbys.Of(shardmap.Shard(shard)), a.options.View.Directory()
	for _, id := range chosen {
		addr, _ := directory.Addr(string(id), endpoints.HTTP)
		result.Standbys = append(result.Standbys, api.MapNode{ID: string(id), HTTP: addr})
	}
	members := a.options.View.Gossip.Members()
	for _, node := range a.options.View.Nodes() {
		id := shardmap.NodeID(node)
		if id != state.Committed().Owner(shardmap.Shard(shard)) && !slices.Contains(chosen, id) {
			result.NotStandbys = append(result.NotStandbys, api.NotStandby{Node: node, Reason: notStandbyReason(state, standbys, shardmap.Shard(shard), memberOf(members, node))})
		}
	}
	return result
}

// memberOf returns the node in the list of gossip. If it is missing, the result has only its ID and the status
// Failed.
func memberOf(members []gossip.Member, node string) gossip.Member {
	i := slices.IndexFunc(members, func(member gossip.Member) bool { return member.Node && member.ID == node })
	if i < 0 {
		return gossip.Member{ID: node, Status: gossip.Failed}
	}
	return members[i]
}

// notStandbyReason returns why a node that is not the owner of the shard is not one of its standbys.
func notStandbyReason(state *ack.State, standbys *shardmap.Standbys, shard shardmap.Shard, member gossip.Member) string {
	id, policy := shardmap.NodeID(member.ID), state.Policy()
	switch {
	case standbys.IsCandidate(shard, id):
		return api.ReasonTooManyReplicas
	case member.Status == gossip.Leaving, policy.IsDraining(id), policy.Drained[id], policy.Cordoned[id], policy.MarkedFailed[id]:
		return api.ReasonDraining
	case member.Status != gossip.Alive, state.IsDropped(id):
		return api.ReasonUnknown
	case member.Tags.Role == gossip.RoleGateway, policy.LacksRole(member.Tags.Roles):
		return api.ReasonRole
	case !state.Committed().IsMember(id):
		return api.ReasonUnhealthy
	}
	return api.ReasonUnknown
}
