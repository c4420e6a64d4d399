package adminapi

import (
	"context"
	"slices"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/endpoints"
	"shardway/node/gossip"
	"shardway/shardmap"
)

// MovingShards returns the number of shards that the open proposal moves; zero if no proposal is open.
func MovingShards(replicated *ack.State) int {
	if !replicated.HasOpenProposal() {
		return 0
	}
	return len(shardmap.Diff(replicated.Committed(), replicated.Proposed()))
}

// Idle returns why an owner does not serve its shards, as far as this node can tell, or an empty string if it does.
func (a *API) Idle(owner string) string {
	findings := a.options.Findings()
	return findings.Inputs.NotServingReason(owner)
}

// Shards lists the shards of all services in order.
func (a *API) Shards() api.ShardList {
	replicated := a.options.Router.State()
	committed := replicated.Committed()
	list := api.ShardList{Epoch: uint64(committed.Epoch()), Proposed: uint64(replicated.Proposed().Epoch()), Total: committed.Len(), Shards: make([]api.Shard, committed.Len())}
	hasInstances := committed.HasInstances() || replicated.Proposed().HasInstances()
	notServingReason := a.options.Findings().notServingReasons()
	for i := range list.Shards {
		shard := shardmap.Shard(i)
		list.Shards[i] = api.Shard{
			Shard: uint32(i), State: api.ShardOwned, Owner: string(committed.Owner(shard)), Epoch: uint64(committed.OwnedSince(shard)),
		}
		list.Shards[i].Service, list.Shards[i].ServiceShard = serviceOfShard(replicated, shard)
		previous, previousInstance, _ := shardmap.ParseInstance(replicated.PreviousOwner(shard))
		list.Shards[i].Previous = string(previous)
		if hasInstances && list.Shards[i].Owner != "" {
			list.Shards[i].Instance = committed.Instance(shard).Number()
		}
		if hasInstances && previous != "" {
			list.Shards[i].PreviousInstance = previousInstance.Number()
		}
		_, _, list.Shards[i].Released = replicated.ReleaseNote(shard)
		list.Shards[i].Unavailable = notServingReason(list.Shards[i].Owner)
		list.Shards[i].StaleReturn = replicated.IsBarred(committed.OwnerInstanceID(shard), shard)
		switch {
		case replicated.HasOpenProposal() && !replicated.Proposed().HasSameOwner(committed, shard):
			list.Shards[i].State, list.Shards[i].To = api.ShardMoving, string(replicated.Proposed().Owner(shard))
			if hasInstances && list.Shards[i].To != "" {
				list.Shards[i].ToInstance = replicated.Proposed().Instance(shard).Number()
			}
		case committed.Owner(shard) == "":
			list.Shards[i].State = api.ShardOrphaned
		}
	}
	if replicated.HasServices() {
		// The shards of a removed service remain in the map.
		list.Shards = slices.DeleteFunc(list.Shards, func(shard api.Shard) bool { return shard.Service == "" })
		list.Total = len(list.Shards)
	}
	return list
}

// Endpoints lists the endpoints that the current members of gossip announce, including members that are
// not nodes.
func (a *API) Endpoints() []api.Endpoint {
	present := map[string]bool{}
	for _, member := range a.options.View.Gossip.Members() {
		present[member.ID] = member.Status == gossip.Alive || member.Status == gossip.Leaving
	}
	var list []api.Endpoint
	for _, entry := range a.options.View.Directory().All() {
		if !present[entry.ID] {
			continue
		}
		kind := api.KindMember
		if entry.IsNode {
			kind = api.KindNode
		}
		list = append(list, api.Endpoint{Node: gossip.DisplayName(entry.ID), Kind: kind, Name: entry.Name, Addr: entry.Addr})
	}
	return list
}

// Map returns the committed shard map in the form of the admin API.
func (a *API) Map() api.Map { return a.mapOf(a.options.Router.State()) }

// mapOf returns the result of Map for a state.
func (a *API) mapOf(state *ack.State) api.Map {
	committed := state.Committed()
	result := api.Map{Epoch: uint64(committed.Epoch()), Shards: committed.Len(), Hash: api.HashName, Nodes: []api.MapNode{}, Owners: make([]int, 0, committed.Len()), Services: mapServices(state)}
	directory := a.options.View.Directory()
	for _, member := range committed.Members() {
		addr, _ := directory.Addr(string(member.ID), endpoints.HTTP)
		result.Nodes = append(result.Nodes, api.MapNode{ID: string(member.ID), HTTP: addr})
	}
	if committed.Epoch() > 0 {
		for i := range committed.Len() {
			result.Owners = append(result.Owners, committed.OwnerIndex(shardmap.Shard(i)))
			if committed.HasInstances() {
				result.Instances = append(result.Instances, committed.Instance(shardmap.Shard(i)).Number())
			}
		}
	}
	return result
}

// WaitMap returns when the epoch of the committed map is greater than after, or when ctx ends.
func (a *API) WaitMap(ctx context.Context, after uint64) { a.options.Router.Await(ctx, after+1, 0) }
