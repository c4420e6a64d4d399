package adminapi

import (
	"fmt"
	"maps"
	"slices"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/internal/timingrules"
	"shardway/shardmap"
)

// Policy returns the operators' requests that affect shard maps, such as drains, pins and weights, as far as this
// node has applied the log.
func (a *API) Policy() api.Policy {
	state := a.options.View.State()
	policy := state.Policy()
	result := api.Policy{Drained: sortedNodeIDs(policy.Drained), Cordoned: sortedNodeIDs(policy.Cordoned), MarkedFailed: sortedNodeIDs(policy.MarkedFailed), Weights: map[string]uint32{}, GradualDrains: []api.GradualDrain{}, Pins: []api.PinnedShard{}, Quarantined: a.options.Quarantined(policy), Since: policy.ChangedIndex}
	for id, weight := range policy.Weights {
		result.Weights[string(id)] = weight
	}
	for _, shard := range slices.Sorted(maps.Keys(policy.Pins)) {
		pinned := api.PinnedShard{Shard: uint32(shard), Node: string(policy.Pins[shard].Node), Zone: policy.Pins[shard].Zone}
		pinned.Service, pinned.ServiceShard = serviceOfShard(state, shard)
		for _, fallback := range policy.PinFallbacks[shard] {
			pinned.Fallbacks = append(pinned.Fallbacks, string(fallback))
		}
		result.Pins = append(result.Pins, pinned)
	}
	for _, id := range slices.Sorted(maps.Keys(policy.GradualDrains)) {
		result.GradualDrains = append(result.GradualDrains, api.GradualDrain{Node: string(id), IdleFirst: timingrules.Short(policy.GradualDrains[id].Duration)})
	}
	result.Reasons = policyReasons(policy)
	result.Role = policy.Role
	if policy.Pause > 0 {
		result.Pause = timingrules.Short(policy.Pause)
	}
	return result
}

// policyReasons converts the operators' reasons to the form of the admin API.
func policyReasons(policy *ack.Policy) []api.PolicyReason {
	verbs := map[ack.ChangeKind]api.Verb{
		ack.ChangeCordon: api.Cordon, ack.ChangeDrain: api.Drain, ack.ChangeWeight: api.Weigh, ack.ChangePin: api.Pin, ack.ChangePause: api.Pause, ack.ChangeQuarantine: api.Quarantine, ack.ChangeMarkFailed: api.MarkFailed, ack.ChangeRole: api.SetRole,
	}
	reasons := []api.PolicyReason{}
	for _, item := range slices.SortedFunc(maps.Keys(policy.Reasons), ack.PolicyItem.Compare) {
		reason := api.PolicyReason{Action: verbs[item.Kind].String(), Node: string(item.Node), Reason: policy.Reasons[item]}
		if item.Kind == ack.ChangePin {
			reason.Shard = (*uint32)(&item.Shard)
		}
		if item.Kind == ack.ChangeQuarantine {
			reason.Shard, reason.Hash = (*uint32)(&item.KeyFingerprint.Shard), fmt.Sprintf("%016x", item.KeyFingerprint.Hash)
		}
		reasons = append(reasons, reason)
	}
	return reasons
}

// sortedNodeIDs returns the sorted IDs of a set of nodes.
func sortedNodeIDs(nodes map[shardmap.NodeID]bool) []string {
	ids := []string{}
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		ids = append(ids, string(id))
	}
	return ids
}
