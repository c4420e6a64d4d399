package leader

import (
	"time"

	"shardway/shardmap"
)

// KeyConfigLoaded reports which key configuration the own node of the leader has loaded; empty
// means none.
type KeyConfigLoaded struct{ Text string }

func (KeyConfigLoaded) message() {}

// keyConfig is a key configuration with its digest.
type keyConfig struct {
	text   string
	digest uint64
}

// changesKeyConfigNow reports whether the open round of this leader changes the key configuration,
// or the next one will. Such a round drains all shards, so busy shards can move with it at no
// extra cost.
func (l *Leader) changesKeyConfigNow(now time.Duration) bool {
	if l.state.HasOpenProposal() {
		return l.ownRoundOpen() && l.state.ChangesKeyConfig() && !l.keyConfigChangeBlocked()
	}
	return l.keyConfigToActivate(now) != ""
}

// keyConfigChangeBlocked reports whether the open proposal changes the key configuration while a
// member restarts in place. The commit would require the acknowledgement of that member, and every
// shard would be held until it is back.
func (l *Leader) keyConfigChangeBlocked() bool {
	if !l.ownRoundOpen() || !l.state.ChangesKeyConfig() || l.state.KeyConfig() == "" {
		return false
	}
	for _, member := range l.state.Proposed().Members() {
		if l.isRestarting(l.member(member.ID)) {
			return true
		}
	}
	return false
}

// isResponsive reports whether a member is expected to acknowledge a proposal soon. A change of
// the key configuration holds every shard until all members have acknowledged.
func (l *Leader) isResponsive(now time.Duration, node *member) bool {
	return node.hasHeartbeat() && !node.heartbeat.Goodbye && !node.removed && !node.isSilent(now, l.options.Pace) && !l.isRestarting(node) && !node.hasCrashed() && l.exclusionCause(now, node) == 0
}

// keyConfigToActivate returns the key configuration that must become active now; empty means none.
// It is the one that the node of the leader has loaded, once every member and every other node
// with heartbeats, gateways included, has loaded it. The first key configuration needs no
// consent, because no request is routed before it.
func (l *Leader) keyConfigToActivate(now time.Duration) string {
	active := l.state.KeyConfig()
	switch {
	case l.loadedKeyConfig.text == "" || l.loadedKeyConfig.text == active:
		return ""
	case active == "":
		return l.loadedKeyConfig.text
	case now-l.electedAt < l.maxTiming.DeadAfter:
		return "" // a live node may not have sent its first heartbeat yet
	}
	for _, m := range [2]*shardmap.Map{l.state.Committed(), l.state.Proposed()} {
		for _, member := range m.Members() {
			if node := l.member(member.ID); !l.isResponsive(now, node) || node.heartbeat.KeyConfigDigest != l.loadedKeyConfig.digest {
				return ""
			}
		}
	}
	for _, node := range l.members { // gateways among them
		if node.hasHeartbeat() && !node.heartbeat.Goodbye && !node.isSilent(now, l.options.Pace) && node.heartbeat.KeyConfigDigest != l.loadedKeyConfig.digest {
			return ""
		}
	}
	return l.loadedKeyConfig.text
}
