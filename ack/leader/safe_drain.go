package leader

import (
	"slices"
	"time"

	"shardway/shardmap"
)

// findKeptShards returns the shards that remain at their owners because of safe drains. An
// owner that may be gone, or whose app is unhealthy, keeps nothing.
func (l *Leader) findKeptShards(now time.Duration) (kept map[shardmap.Shard]bool) {
	base, p := l.state.Committed(), l.state.Policy()
	for id, t := range p.DrainOptions {
		n := l.members[id]
		if d, _ := l.state.Drop(id); !t.Safe || n == nil || !n.hasHeartbeat() || d.InForce || n.removed || n.hasCrashed() || n.isSilent(now, l.options.Pace) || l.isRestarting(n) ||
			l.exclusionCause(now, n) != 0 || n.heartbeat.Unhealthy || n.heartbeat.Leaving || n.heartbeat.Goodbye {
			continue
		}
		for s := range base.Shards(id) {
			if n.heartbeat.KeepsAllShards || slices.Contains(n.heartbeat.KeptShards, s) {
				setKey(&kept, s, true)
			}
		}
	}
	return kept
}
