package hooks

import (
	"cmp"
	"fmt"
	"slices"

	"shardway/ack"
	"shardway/ack/agent"
	"shardway/shardmap"
)

// checkService returns an error if the shards of the call belong to another service than the app. The shard
// map can assign such shards after the configuration of the node has changed. Shards of two services have
// equal numbers within their services, so the app would take the shard for one of its own.
func (h *HTTP) checkService(call *agent.HookCall) error {
	appService, callService := cmp.Or(h.Service, ack.DefaultService), cmp.Or(call.Service, ack.DefaultService)
	if len(call.Shards) == 0 || appService == callService { // a probe has no shards
		return nil
	}
	return fmt.Errorf("shard %d belongs to service %s, and the app of this node runs service %s", call.Shards[0].Shard-call.First, callService, appService)
}

// shardsInService returns the call with shard numbers that count from the first shard of the service.
func shardsInService(call agent.HookCall) agent.HookCall {
	if call.First == 0 {
		return call
	}
	call.Shards = slices.Clone(call.Shards)
	for i := range call.Shards {
		call.Shards[i].Shard -= call.First
	}
	return call
}

// mapShards returns the result of a call with the shard numbers of the map. first is the first shard of the
// service. The result must name only shards of the call.
func mapShards(result agent.HookResult, first shardmap.Shard) agent.HookResult {
	if first == 0 {
		return result
	}
	result.Failed = addFirst(result.Failed, first)
	result.Notes = addFirst(result.Notes, first)
	result.Absent = addFirst(result.Absent, first)
	return result
}

// addFirst returns values with first added to each shard.
func addFirst[V any](values map[shardmap.Shard]V, first shardmap.Shard) map[shardmap.Shard]V {
	if values == nil {
		return nil
	}
	moved := make(map[shardmap.Shard]V, len(values))
	for shard, value := range values {
		moved[shard+first] = value
	}
	return moved
}
