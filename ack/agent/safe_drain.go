package agent

import (
	"maps"
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// safeDrainState contains the shards that a safe drain leaves at this node, with the reasons.
type safeDrainState struct {
	drainIndex uint64 // DrainOptions.Index of the drain
	keptShards map[shardmap.Shard]string
}

// drainTerms returns the terms of the drain of this node. Zero means that the node is not
// drained, or stops.
func (m *hookMachine) drainTerms() ack.DrainOptions {
	if m.inputs.state == nil || m.inputs.stopping {
		return ack.DrainOptions{}
	}
	return m.inputs.state.Policy().DrainOptions[m.self]
}

// releaseTimeout returns the release timeout in force.
func (m *hookMachine) releaseTimeout() time.Duration {
	if t := m.drainTerms().ReleaseTimeout; t > 0 {
		return t
	}
	return m.options.ReleaseTimeout
}

// attemptTimeout returns the timeout of one release call. An operator who sets the release
// timeout of a drain has a slow app, so one call may take half of it.
func (m *hookMachine) attemptTimeout() time.Duration {
	return min(max(maxAttempt, m.drainTerms().ReleaseTimeout/2), m.releaseTimeout())
}

func (m *hookMachine) lostCallReserve() time.Duration { return lostCallReserve(m.releaseTimeout()) }
func (m *hookMachine) deliveryReserve() time.Duration {
	return ack.NoteDeliveryTime(m.releaseTimeout())
}

// keepsUnreleased reports whether a shard remains here because its release failed under a safe
// drain. The node then does not acknowledge the proposal, and the leader makes another one. An
// excluded node keeps nothing.
func (m *hookMachine) keepsUnreleased(shard shardmap.Shard, held *heldShard) bool {
	if m.inputs.state.IsDropped(m.self) || m.appRefusesConns || !m.drainTerms().Safe {
		return false
	}
	if _, known := m.safeDrain.keptShards[shard]; !known {
		result, reason := held.releaseFailure()
		if m.safeDrain.keptShards == nil {
			m.safeDrain.keptShards = map[shardmap.Shard]string{}
		}
		m.safeDrain.keptShards[shard] = reason
		m.heartbeatDue = true
		m.reportReleaseEnd(shard, held, result, reason, true)
	}
	return true
}

// resetSafeDrain forgets the shards that an earlier drain left here.
func (m *hookMachine) resetSafeDrain() {
	if options := m.drainTerms(); !options.Safe || options.Index != m.safeDrain.drainIndex {
		m.safeDrain = safeDrainState{drainIndex: options.Index}
	}
}

// safeDrainReport returns the values for a heartbeat: up to MaxUnacquired shards, or that all
// shards remain.
func (a *Agent) safeDrainReport() (keptShards []shardmap.Shard, keepsAll bool) {
	if a.hooks == nil || len(a.hooks.safeDrain.keptShards) == 0 {
		return nil, false
	}
	if len(a.hooks.safeDrain.keptShards) > ack.MaxUnacquired {
		return nil, true
	}
	return slices.Sorted(maps.Keys(a.hooks.safeDrain.keptShards)), false
}

// KeptShards returns the number of shards that a safe drain leaves at this node, and why the
// first of them was not released.
func (a *Agent) KeptShards() (count int, reason string) {
	if a.hooks == nil || len(a.hooks.safeDrain.keptShards) == 0 {
		return 0, ""
	}
	keptShards := a.hooks.safeDrain.keptShards
	return len(keptShards), keptShards[slices.Min(slices.Collect(maps.Keys(keptShards)))]
}
