package leader

import (
	"slices"
	"time"

	"shardway/shardmap"
)

// findKeptShards returns the shards that remain at their owners because of safe drains. An
// owner that may be gone, or whose app is unhealthy, keeps nothing.
func (l *Leader) findKeptShards(now time.Duration) (kept map[shardmap.Shard]bool) {
	base, policy := l.state.Committed(), l.state.Policy()
	for id, options := range policy.DrainOptions {
		node := l.members[id]
		if drop, _ := l.state.Drop(id); !options.Safe || node == nil || !node.hasHeartbeat() || drop.InForce || node.removed || node.hasCrashed() || node.isSilent(now, l.options.Pace) || l.isRestarting(node) ||
			l.exclusionCause(now, node) != 0 || node.heartbeat.Unhealthy || node.heartbeat.Leaving || node.heartbeat.Goodbye {
			continue
		}
		for shard := range base.Shards(id) {
			if node.heartbeat.KeepsAllShards || slices.Contains(node.heartbeat.KeptShards, shard) {
				setKey(&kept, shard, true)
			}
		}
	}
	return kept
}
