package adminapi

import (
	"shardway/ack"
	"shardway/admin/api"
	"shardway/shardmap"
)

// instanceDrainState returns the progress of the drain of one app instance. A shard leaves an instance only after
// its last request has ended, so the log contains everything that remains.
func (a *API) instanceDrainState(replicated *ack.State, node shardmap.NodeID, instance shardmap.Instance) (api.DrainState, error) {
	isDrained := replicated.Policy().DrainsInstance(node, instance)
	if !isDrained && !a.options.View.HasNode(string(node)) {
		return api.DrainState{}, a.options.View.UnknownNode(string(node))
	}
	shards := max(replicated.Committed().InstanceCount(node, instance), replicated.Proposed().InstanceCount(node, instance))
	state := api.DrainState{Node: string(shardmap.InstanceName(node, instance)), Shards: shards, Requested: isDrained}
	return state, nil
}
