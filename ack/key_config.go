package ack

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"shardway/shardmap"
)

// MaxKeys is the largest key configuration, in bytes.
const MaxKeys = 16 << 10

// KeysDigest returns the number that stands for a key configuration in heartbeats; zero for
// the empty text, which is none. It tells configurations apart that operators write; nobody
// gains anything by two with one digest.
func KeysDigest(text string) uint64 {
	if text == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(text))
	return max(binary.BigEndian.Uint64(sum[:8]), 1)
}

// Keys returns the active key configuration: the text by which every node finds the keys of
// requests. It is empty before the first map.
func (s *State) Keys() string { return s.keys }

// KeysSince returns the epoch of the map with whose commit the active key configuration
// became active. What was sent by the map before was keyed by another one.
func (s *State) KeysSince() shardmap.Epoch { return s.keysSince }

// ChangesKeys reports whether the open proposal changes the key configuration. Then no
// request runs anywhere: each may have another key from the commit on.
func (s *State) ChangesKeys() bool { return s.Open() && s.proposedKeys != "" }

// proposesKeys takes the key configuration of a proposal; empty: it changes none.
func (s *State) setProposedKeys(text string) {
	s.proposedKeys = text
	if text == s.keys {
		s.proposedKeys = ""
	}
}

// commitKeys makes the key configuration of the last proposal active.
func (s *State) commitKeys() {
	if s.proposedKeys != "" {
		s.keys, s.keysSince, s.proposedKeys = s.proposedKeys, s.last.Epoch(), ""
	}
}

// KeysLoaded tells which key configuration the leader's own node has loaded; empty: none.
type KeysLoaded struct{ Text string }

func (KeysLoaded) message() {}

// loadedKeys is a key configuration with its digest.
type loadedKeys struct {
	text   string
	digest uint64
}

// changesKeysNow reports whether a round of this leader changes the key configuration, or is
// to begin and change it. It drains all shards, so busy shards can move with it at no cost.
func (l *Leader) changesKeysNow(now time.Duration) bool {
	if l.state.Open() {
		return l.ownRoundOpen() && l.state.ChangesKeys() && !l.keysBlocked()
	}
	return l.keysToActivate(now) != ""
}

// keysBlocked reports whether the open proposal changes the key configuration while a member
// restarts in place. The commit would need the acknowledgement of that member, and every
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

// responsive reports whether a member can be expected to acknowledge a proposal soon. Until
// all members have acknowledged a change of the key configuration, every shard is held.
func (l *Leader) responsive(now time.Duration, n *member) bool {
	return n.heard() && !n.heartbeat.Goodbye && !n.removed && !n.silent(now, l.o.Pace) && !l.isRestarting(n) && !n.crashed() && l.exclusionCause(now, n) == 0
}

// dueKeys returns the key configuration that must become active now; empty: none. It is the
// one that the leader's node has loaded, once every member and every other node from which
// the leader receives heartbeats, gateways included, has loaded it. The first key
// configuration needs no consent: nothing is routed before it.
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
			if n := l.member(x.ID); !l.responsive(now, n) || n.heartbeat.Keys != l.keys.digest {
				return ""
			}
		}
	}
	for _, n := range l.members { // gateways among them
		if n.heard() && !n.heartbeat.Goodbye && !n.silent(now, l.o.Pace) && n.heartbeat.Keys != l.keys.digest {
			return ""
		}
	}
	return l.keys.text
}
