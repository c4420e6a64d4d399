package agent

import (
	"maps"
	"slices"

	"shardway/ack"
	"shardway/shardmap"
)

// safeDrain contains the shards that remain at this node under a safe drain, because the app has
// not released them.
type safeDrain struct {
	drainIndex   uint64                    // DrainOptions.Index of the drain
	keptShards   map[shardmap.Shard]string // by shard: why it was not released
	heartbeatDue bool                      // keptShards has changed and must be reported to the leader
}

// keep records a shard that remains here. It returns false if the shard is already recorded.
func (sd *safeDrain) keep(shard shardmap.Shard, reason string) (added bool) {
	if _, known := sd.keptShards[shard]; known {
		return false
	}
	if sd.keptShards == nil {
		sd.keptShards = map[shardmap.Shard]string{}
	}
	sd.keptShards[shard] = reason
	sd.heartbeatDue = true
	return true
}

// reset forgets the shards that an earlier drain has left here. It returns true if there were any.
func (sd *safeDrain) reset(drain ack.DrainOptions) (hadShards bool) {
	if drain.Safe && drain.Index == sd.drainIndex {
		return false
	}
	hadShards = len(sd.keptShards) > 0
	sd.drainIndex, sd.keptShards = drain.Index, nil
	return hadShards
}

// heartbeatFields returns the values for a heartbeat: up to MaxUnacquired shards, or that all
// shards remain.
func (sd *safeDrain) heartbeatFields() (keptShards []shardmap.Shard, keepsAll bool) {
	if len(sd.keptShards) == 0 {
		return nil, false
	}
	if len(sd.keptShards) > ack.MaxUnacquired {
		return nil, true
	}
	return slices.Sorted(maps.Keys(sd.keptShards)), false
}

// keepsUnreleased reports whether a shard whose release failed remains here because of a safe
// drain. The node then does not acknowledge the proposal, and the leader makes another one. An
// excluded node keeps nothing, and neither does a node whose app is gone along with its state.
func (m *hookMachine) keepsUnreleased(held *heldShard) bool {
	return m.deadlines.drain.Safe && !m.refusesConns[held.instance] && !m.inputs.state.IsDropped(m.process.node)
}

// recordKept records a shard that remains here. The next heartbeat reports it to the leader.
func (m *hookMachine) recordKept(shard shardmap.Shard, held *heldShard) {
	result, reason := held.releaseFailure()
	if added := m.safeDrain.keep(shard, reason); added {
		m.reportReleaseEnd(shard, held, result, reason, true)
	}
}

// resetSafeDrain forgets the shards that an earlier drain left here. If an open proposal takes
// them, their release gets its full time again.
func (m *hookMachine) resetSafeDrain() {
	if hadShards := m.safeDrain.reset(m.deadlines.drain); hadShards {
		m.deadlines.release = 0
	}
}

// restartReleaseTime starts the time for releases again if a safe drain has kept a shard that another node owns
// now. The time was over when the shard was kept, and the app must be informed before the acknowledgement.
func (m *hookMachine) restartReleaseTime(shard shardmap.Shard) {
	if _, kept := m.safeDrain.keptShards[shard]; kept {
		delete(m.safeDrain.keptShards, shard)
		m.deadlines.release = 0
	}
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
