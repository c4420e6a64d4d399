package adminapi

import (
	"maps"
	"slices"

	"shardway/admin/api"
	"shardway/internal/timingrules"
	"shardway/shardmap"
)

// Policy returns the requests of operators that affect shard maps, such as drains, pins and weights, as far
// as this node has applied the log.
func (a *API) Policy() api.Policy {
	p := a.o.View.State().Policy()
	out := api.Policy{Drained: names(p.Drained), Cordoned: names(p.Cordoned), Weights: map[string]uint32{}, GradualDrains: []api.GradualDrain{}, Pins: []api.PinnedShard{}, Quarantined: a.o.Quarantined(p), Since: p.ChangedIndex}
	for id, w := range p.Weights {
		out.Weights[string(id)] = w
	}
	for _, s := range slices.Sorted(maps.Keys(p.Pins)) {
		out.Pins = append(out.Pins, api.PinnedShard{Shard: uint32(s), Node: string(p.Pins[s].Node), Zone: p.Pins[s].Zone})
	}
	for _, id := range slices.Sorted(maps.Keys(p.GradualDrains)) {
		out.GradualDrains = append(out.GradualDrains, api.GradualDrain{Node: string(id), IdleFirst: timingrules.Short(p.GradualDrains[id].Duration)})
	}
	if p.Pause > 0 {
		out.Pause = timingrules.Short(p.Pause)
	}
	return out
}

// names returns the sorted IDs of a set of nodes.
func names(set map[shardmap.NodeID]bool) []string {
	out := []string{}
	for _, id := range slices.Sorted(maps.Keys(set)) {
		out = append(out, string(id))
	}
	return out
}
