package leader

import (
	"slices"

	"shardway/shardmap"
)

// keptShards returns the shards that remain at their owners because of safe drains: the apps have
// failed to release them. An owner that may be gone, or whose app is unhealthy, keeps nothing.
func (ms *membership) keptShards(in inputs, nodes *memberTracker) (kept map[shardmap.Shard]bool) {
	for id, options := range in.state.Policy().DrainOptions {
		node := nodes.byID[id]
		if !options.Safe || node == nil || !ms.mayKeepShards(in, node) {
			continue
		}
		for shard := range in.state.Committed().Shards(id) {
			if node.heartbeat.KeepsAllShards || slices.Contains(node.heartbeat.KeptShards, shard) {
				setKey(&kept, shard, true)
			}
		}
	}
	return kept
}

// keepsAllShards reports whether a safe drain leaves all shards of the node at the node, so that no other map is
// necessary.
func (ms *membership) keepsAllShards(in inputs, node *member) bool {
	if !in.state.Policy().DrainOptions[node.id].Safe || !ms.mayKeepShards(in, node) {
		return false
	}
	for shard := range in.state.Proposed().Shards(node.id) {
		if !node.heartbeat.KeepsAllShards && !slices.Contains(node.heartbeat.KeptShards, shard) {
			return false
		}
	}
	return true
}

// mayKeepShards reports whether an owner under a safe drain is certainly alive, and its app healthy.
func (ms *membership) mayKeepShards(in inputs, node *member) bool {
	drop, _ := in.state.Drop(node.id)
	return ms.isResponsive(in, node) && !drop.InForce && !node.heartbeat.Unhealthy && !node.heartbeat.Leaving
}
