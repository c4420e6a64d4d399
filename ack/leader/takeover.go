package leader

import (
	"shardway/ack"
	"shardway/shardmap"
)

// recordCrash records evidence that the process of a boot has exited. Evidence about a boot other
// than the current one is ignored, also about a higher one, because a wiped data directory starts
// again at one. An equal boot with another nonce is another process.
func (m *member) recordCrash(in inputs, evidence CrashEvidence) {
	isOtherProcess := evidence.Boot != m.heartbeat.Boot || evidence.Nonce != m.heartbeat.Nonce
	if m.hasHeartbeat() && isOtherProcess || m.hasCrashed() {
		return
	}
	m.crashedBoot, m.crashedBeforeHeartbeat, m.crashSeenAt = evidence.Boot, !m.hasHeartbeat(), in.now
}

// recordRemoval records the statement of an operator that the node has stopped permanently. The
// operator decided before the statement arrived, so it is not about a live node. With wrong crash
// evidence, a late statement may still be recorded for a live node, so it frees shards only after
// the lease of the node has ended.
func (m *member) recordRemoval(in inputs) {
	if !m.sendsHeartbeats(in) || m.hasCrashed() {
		m.removed = true
	}
}

// awaitsCrashRestart reports whether RestartGrace delays a takeover: for a crashed node that
// may restart, or for a restarted node that is not eligible yet.
func (m *member) awaitsCrashRestart(in inputs) bool {
	if m.removed || in.isMarkedFailed(m) || m.heartbeat.Leaving || m.heartbeat.Unhealthy {
		return false
	}
	grace := in.pace.RestartGrace
	return m.hasCrashed() && in.now-m.crashSeenAt < grace || m.rebooted && in.now-m.firstHeartbeatAt < grace
}

// takeoverRule returns the rule by which the shards of a node that the proposal excludes may be
// taken, or "" if they may not be taken yet (docs/internals/protocol-takeovers.md, "When a shard may
// be taken").
func (m *member) takeoverRule(in inputs, proposal shardmap.Epoch) string {
	sinceGrant := in.now - m.lastGrantAt
	leaseEnded := sinceGrant > in.timing.LeaseExpiry()
	switch {
	case m.heartbeat.Goodbye:
		return "goodbye"
	case m.awaitsCrashRestart(in):
		return ""
	case m.hasCompleteAck(proposal):
		return "acknowledged"
	case m.rebooted && !m.hadLease:
		return "new-boot"
	case m.removed && leaseEnded:
		return "removed"
	case sinceGrant >= in.timing.DeadAfter:
		return "silence"
	case !m.hasCrashed() || in.timing.Takeover == ack.TakeoverTimeout:
		return ""
	case in.timing.Takeover == ack.TakeoverImmediate:
		return "refusal"
	case leaseEnded:
		return "evidence"
	}
	return ""
}

// processGone reports whether every process under the node id has stopped admitting and running
// requests. A new process on the same disk proves that the previous one has exited, because it
// holds the lock. A new process on another disk proves nothing, and would serve the same shards
// under the same epochs, so it must wait as long as a takeover of the shards.
func (m *member) processGone(in inputs) bool {
	sinceGrant := in.now - m.lastGrantAt
	if m.heartbeat.Goodbye || sinceGrant >= in.timing.DeadAfter {
		return true
	}
	evidenceCounts := m.hasCrashed() && in.timing.Takeover != ack.TakeoverTimeout
	return (m.removed || evidenceCounts) && sinceGrant > in.timing.LeaseExpiry()
}
