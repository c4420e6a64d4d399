package agent

import (
	"maps"
	"slices"

	"shardway/ack"
	"shardway/shardmap"
)

// safeDrainState contains the shards that remain at this node under a safe drain, because the app
// has not released them.
type safeDrainState struct {
	drainIndex uint64                    // DrainOptions.Index of the drain
	keptShards map[shardmap.Shard]string // by shard: why it was not released
}

// keepsUnreleased reports whether a shard whose release has failed remains here, because a safe
// drain is in force. The node then does not acknowledge the proposal, and the leader makes another
// one. An excluded node keeps nothing, and neither does a node whose app is gone with its state.
func (m *hookMachine) keepsUnreleased() bool {
	return m.drainTerms().Safe && !m.appRefusesConns && !m.inputs.state.IsDropped(m.self)
}

// recordKept records a shard that remains here. The next heartbeat reports it to the leader.
func (m *hookMachine) recordKept(shard shardmap.Shard, held *heldShard) {
	if _, known := m.safeDrain.keptShards[shard]; known {
		return
	}
	if m.safeDrain.keptShards == nil {
		m.safeDrain.keptShards = map[shardmap.Shard]string{}
	}
	result, reason := held.releaseFailure()
	m.safeDrain.keptShards[shard] = reason
	m.heartbeatDue = true
	m.reportReleaseEnd(shard, held, result, reason, true)
}

// resetSafeDrain forgets the shards that an earlier drain has left here.
func (m *hookMachine) resetSafeDrain() {
	drain := m.drainTerms()
	if drain.Safe && drain.Index == m.safeDrain.drainIndex {
		return
	}
	if len(m.safeDrain.keptShards) > 0 {
		m.releaseDeadline = 0 // an open proposal that takes them waits for their release again
	}
	m.safeDrain = safeDrainState{drainIndex: drain.Index}
}

// safeDrainReport returns the values for a heartbeat: up to MaxUnacquired shards, or that all
// shards remain.
func (m *hookMachine) safeDrainReport() (keptShards []shardmap.Shard, keepsAll bool) {
	if len(m.safeDrain.keptShards) == 0 {
		return nil, false
	}
	if len(m.safeDrain.keptShards) > ack.MaxUnacquired {
		return nil, true
	}
	return slices.Sorted(maps.Keys(m.safeDrain.keptShards)), false
}

// KeptShards returns the number of shards that a safe drain leaves at this node, and why the
// first of them was not released.
func (a *Agent) KeptShards() (count int, reason string) {
	if a.hooks == nil || len(a.hooks.safeDrain.keptShards) == 0 {
		return 0, ""
	}
	kept := a.hooks.safeDrain.keptShards
	first := slices.Min(slices.Collect(maps.Keys(kept)))
	return len(kept), kept[first]
}
