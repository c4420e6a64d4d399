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
func (s *State) ChangesKeys() bool { return s.Open() && s.nextKeys != "" }

// proposesKeys takes the key configuration of a proposal; empty: it changes none.
func (s *State) proposesKeys(text string) {
	s.nextKeys = text
	if text == s.keys {
		s.nextKeys = ""
	}
}

// commitKeys makes the key configuration of the last proposal active.
func (s *State) commitKeys() {
	if s.nextKeys != "" {
		s.keys, s.keysSince, s.nextKeys = s.nextKeys, s.last.Epoch(), ""
	}
}

// KeysLoaded tells which key configuration the leader's own node has loaded; empty: none.
type KeysLoaded struct{ Text string }

func (KeysLoaded) message() {}

// keysBlocked reports that the open proposal changes the key configuration, and that a member
// restarts in place: without its word there is no commit, and the others would wait for it.
func (l *Leader) keysBlocked() bool {
	if !l.mine() || !l.state.ChangesKeys() || l.state.Keys() == "" {
		return false
	}
	for _, m := range l.state.Last().Members() {
		if l.absent(l.node(m.ID)) {
			return true
		}
	}
	return false
}

// dueKeys returns the key configuration that is to become active now; empty: none. It is the
// one that the leader's node has loaded, once every member and every other node that is
// heard, gateways included, has loaded it. The first one needs nobody's consent: nothing is
// routed before it.
func (l *Leader) dueKeys(now time.Duration) string {
	active := l.state.Keys()
	switch {
	case l.keys == "" || l.keys == active:
		return ""
	case active == "":
		return l.keys
	case now-l.elected < l.t.DeadAfter:
		return "" // a node that is there may not have been heard yet
	}
	digest := KeysDigest(l.keys)
	for _, m := range [2]*shardmap.Map{l.state.Committed(), l.state.Last()} {
		for _, x := range m.Members() {
			if n := l.node(x.ID); l.absent(n) || !n.heard() || n.beat.Keys != digest || n.beat.Goodbye || n.silent(now, l.o.Pace) {
				return ""
			}
		}
	}
	for _, n := range l.nodes {
		if n.heard() && !n.beat.Goodbye && !n.silent(now, l.o.Pace) && n.beat.Keys != digest {
			return ""
		}
	}
	return l.keys
}
