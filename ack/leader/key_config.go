package leader

import (
	"time"

	"shardway/shardmap"
)

// KeysLoaded reports which key configuration the own node of the leader has loaded; empty
// means none.
type KeysLoaded struct{ Text string }

func (KeysLoaded) message() {}

// loadedKeys is a key configuration with its digest.
type loadedKeys struct {
	text   string
	digest uint64
}

// changesKeysNow reports whether the open round of this leader changes the key configuration,
// or the next one will. Such a round drains all shards, so busy shards can move with it at no
// extra cost.
func (l *Leader) changesKeysNow(now time.Duration) bool {
	if l.state.Open() {
		return l.ownRoundOpen() && l.state.ChangesKeys() && !l.keysBlocked()
	}
	return l.keysToActivate(now) != ""
}

// keysBlocked reports whether the open proposal changes the key configuration while a member
// restarts in place. The commit would require the acknowledgement of that member, and every
// shard would be held until it is back.
func (l *Leader) keysBlocked() bool {
	if !l.ownRoundOpen() || !l.state.ChangesKeys() || l.state.Keys() == "" {
		return false
	}
	for _, m := range l.state.Last().Members() {
		if l.isRestarting(l.member(m.ID)) {
			return true
		}
	}
	return false
}

// isResponsive reports whether a member is expected to acknowledge a proposal soon. A change of
// the key configuration holds every shard until all members have acknowledged.
func (l *Leader) isResponsive(now time.Duration, n *member) bool {
	return n.hasHeartbeat() && !n.heartbeat.Goodbye && !n.removed && !n.isSilent(now, l.options.Pace) && !l.isRestarting(n) && !n.hasCrashed() && l.exclusionCause(now, n) == 0
}

// keysToActivate returns the key configuration that must become active now; empty means none.
// It is the one that the node of the leader has loaded, once every member and every other node
// with heartbeats, gateways included, has loaded it. The first key configuration needs no
// consent, because no request is routed before it.
func (l *Leader) keysToActivate(now time.Duration) string {
	active := l.state.Keys()
	switch {
	case l.keys.text == "" || l.keys.text == active:
		return ""
	case active == "":
		return l.keys.text
	case now-l.elected < l.maxTiming.DeadAfter:
		return "" // a live node may not have sent its first heartbeat yet
	}
	for _, m := range [2]*shardmap.Map{l.state.Committed(), l.state.Last()} {
		for _, x := range m.Members() {
			if n := l.member(x.ID); !l.isResponsive(now, n) || n.heartbeat.Keys != l.keys.digest {
				return ""
			}
		}
	}
	for _, n := range l.members { // gateways among them
		if n.hasHeartbeat() && !n.heartbeat.Goodbye && !n.isSilent(now, l.options.Pace) && n.heartbeat.Keys != l.keys.digest {
			return ""
		}
	}
	return l.keys.text
}
