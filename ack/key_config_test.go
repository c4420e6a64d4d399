package ack_test

import (
	"testing"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

func TestKeysDigestDistinguishesConfigurations(t *testing.T) {
	if ack.KeyConfigDigest("") != 0 {
		t.Error("the empty text has a digest")
	}
	if a, b := ack.KeyConfigDigest("a"), ack.KeyConfigDigest("b"); a == 0 || a == b {
		t.Errorf("%x and %x", a, b)
	}
}

// loads makes nodes load a key configuration.
func (s *stage) loads(keys string, ids ...shardmap.NodeID) {
	for _, id := range ids {
		s.actor(id).keys = keys
	}
}

// servingByK0 is serving with the key configuration k0, after the leader has had time to receive
// heartbeats from all nodes.
func servingByK0(tb testing.TB, nodes ...shardmap.NodeID) *stage {
	tb.Helper()
	s := newStage(tb, nodes...)
	s.loads("k0", nodes...)
	s.start(nodes...)
	s.elect(nodes[0])
	s.run(s.timing.DeadAfter + 600*time.Millisecond)
	if s.state.KeyConfig() != "k0" {
		tb.Fatalf("the first map has keys %q:\n%s", s.state.KeyConfig(), s)
	}
	s.lines = nil
	return s
}

// A change of the key configuration takes one round, and that round takes no longer than any
// other when no request runs.
func TestKeysChangeInOneShortRound(t *testing.T) {
	s := servingByK0(t, "a", "b", "c")
	epoch := s.state.Committed().Epoch()
	s.loads("k1", "a", "b")
	s.run(2 * time.Second)
	if s.state.Proposed().Epoch() != epoch {
		t.Fatalf("a round began before c had loaded the keys:\n%s", s)
	}
	s.loads("k1", "c")
	loaded := s.now
	s.until("the keys are active", func() bool { return s.state.KeyConfig() == "k1" })
	if took := s.now - loaded; took > s.pace.Heartbeat+50*time.Millisecond {
		t.Errorf("it took %v after c had loaded the keys:\n%s", took, s)
	}
	s.run(2 * time.Second)
	if s.state.KeyConfigSince() != s.state.Committed().Epoch() || s.state.HasOpenProposal() {
		t.Errorf("a second round followed:\n%s", s)
	}
}

// changesKeys reports whether a round is open that changes the key configuration.
func (s *stage) changesKeys() bool { return s.state.ChangesKeyConfig() }

// A change of the key configuration drains every shard, so the busy shards of a staged change
// move in the same round: neither waits for the other, and no request is drained twice.
func TestKeysChangeWithTheRestOfAStagedChange(t *testing.T) {
	for name, c := range planned {
		t.Run(name, func(t *testing.T) {
			busy := moving(t, name)[0]
			s := servingByK0(t, "a", "b", "c")
			if c.prepare != nil {
				c.prepare(s)
				s.run(2 * time.Second)
			}
			s.runs(c.from, busy)
			s.loads("k1", "a", "b", "d")
			before := s.state.Committed().Epoch()
			c.begin(s)
			s.until("idle shards have moved", func() bool { return s.state.Committed().Epoch() > before && !s.state.HasOpenProposal() })
			s.loads("k1", "c")
			s.until("a change of the keys", s.changesKeys)
			if got := s.state.Proposed().Owner(busy); got == c.from {
				t.Errorf("the round leaves shard %d where it is:\n%s", busy, s)
			}
			epoch := s.state.Proposed().Epoch()
			s.run(time.Second)
			if s.state.Proposed().Epoch() != epoch || !s.actor(c.from).runs[busy] {
				t.Errorf("another round, or the request was cut early:\n%s", s)
			}
			delete(s.actor(c.from).runs, busy)
			ended := s.now
			s.until("the keys are active", func() bool { return s.state.KeyConfig() == "k1" })
			if took := s.now - ended; took > 100*time.Millisecond {
				t.Errorf("%v after the request had ended:\n%s", took, s)
			}
			s.run(2 * time.Second)
			if s.state.Committed().Epoch() != epoch || s.state.HasOpenProposal() || s.state.Committed().ShardCount(c.from) != c.left {
				t.Errorf("another round followed:\n%s", s)
			}
		})
	}
}

// A member that crashes while a change of the key configuration drains does not keep the
// shards of the other members held: the next proposal is without the change. It follows once
// the shards of that member have other owners.
func TestCrashDoesNotProlongAChangeOfTheKeys(t *testing.T) {
	s := servingByK0(t, "a", "b", "c")
	s.runs("b", s.owned("b")[0])
	s.loads("k1", "a", "b", "c")
	s.until("a change of the keys", s.changesKeys)
	s.crash("c")
	crashed := s.now
	s.until("the other shards are routed", func() bool { return !s.state.ChangesKeyConfig() })
	if took := s.now - crashed; took > s.timing.DeadAfter/2 {
		t.Errorf("all shards were held for %v:\n%s", took, s)
	}
	if s.state.KeyConfig() != "k0" {
		t.Errorf("the keys are %s without a word of c:\n%s", s.state.KeyConfig(), s)
	}
	clear(s.actor("b").runs)
	s.until("the keys are active", func() bool { return s.state.KeyConfig() == "k1" })
	if s.state.Committed().IsMember("c") {
		t.Errorf("c is a member:\n%s", s)
	}
}

// A leader that finds the open proposal of another one proposes the map again without the
// change, whose conditions it has not seen. It makes the change later itself.
func TestNextLeaderChangesTheKeysItself(t *testing.T) {
	s := servingByK0(t, "a", "b", "c")
	s.runs("b", s.owned("b")[0])
	s.loads("k1", "a", "b", "c")
	s.until("a change of the keys", s.changesKeys)
	s.elect("b")
	s.until("its proposal", func() bool { return !s.state.ChangesKeyConfig() })
	if s.state.KeyConfig() != "k0" {
		t.Errorf("the keys are %s:\n%s", s.state.KeyConfig(), s)
	}
	clear(s.actor("b").runs)
	s.until("the keys are active", func() bool { return s.state.KeyConfig() == "k1" })
}

// A node loads the previous text again while the change drains. The change continues: one text
// is active on all nodes, and the next change requires all of them again.
func TestKeysThatGoBackDuringTheRound(t *testing.T) {
	s := servingByK0(t, "a", "b", "c")
	s.runs("b", s.owned("b")[0])
	s.loads("k1", "a", "b", "c")
	s.until("a change of the keys", s.changesKeys)
	epoch := s.state.Proposed().Epoch()
	s.loads("k0", "c")
	s.run(time.Second)
	clear(s.actor("b").runs)
	s.until("the keys are active", func() bool { return s.state.KeyConfig() == "k1" })
	s.run(3 * time.Second)
	if s.state.Proposed().Epoch() != epoch {
		t.Errorf("another round followed:\n%s", s)
	}
	s.loads("k0", "a", "b")
	s.until("the keys are back", func() bool { return s.state.KeyConfig() == "k0" })
}

// A joining node with a third text blocks nothing: the active text remains.
func TestJoiningNodeWithOtherKeysKeepsTheActiveKeys(t *testing.T) {
	s := servingByK0(t, "a", "b", "c")
	s.loads("k1", "a", "b", "c")
	s.loads("k2", "d")
	s.start("d")
	s.actor("d").follows, s.actor("d").term = "a", s.term
	s.until("d owns shards", func() bool { return s.state.Committed().ShardCount("d") > 0 && !s.state.HasOpenProposal() })
	s.run(3 * time.Second)
	if s.state.KeyConfig() != "k0" {
		t.Errorf("the keys are %s:\n%s", s.state.KeyConfig(), s)
	}
	s.loads("k1", "d")
	s.until("the keys are active", func() bool { return s.state.KeyConfig() == "k1" })
}

// A gateway that has other keys may not have sent a heartbeat to a leader just elected. That
// leader does not change the keys before the gateway has had the time to send one.
func TestNextLeaderWaitsForGatewaysBeforeItChangesTheKeys(t *testing.T) {
	s := servingByK0(t, "a", "b", "c")
	g := s.actor("g")
	g.gateway = true
	s.loads("k0", "g")
	s.joins("g")
	s.run(time.Second)
	s.loads("k1", "a", "b", "c")
	s.run(2 * time.Second)
	g.mute = true
	s.elect("b")
	s.run(s.timing.DeadAfter * 9 / 10)
	g.mute = false
	s.run(3 * time.Second)
	if s.state.KeyConfig() != "k0" || s.state.ChangesKeyConfig() {
		t.Errorf("the keys are %s, and the gateway has loaded k0:\n%s", s.state.KeyConfig(), s)
	}
	s.loads("k1", "g")
	s.until("the keys are active", func() bool { return s.state.KeyConfig() == "k1" })
}

// A member that restarts in place while a change of the keys drains would keep every shard held
// until it is back. The next proposal is without the change.
func TestRestartInPlaceDoesNotProlongAChangeOfTheKeys(t *testing.T) {
	s := servingByK0(t, "a", "b", "c")
	s.runs("b", s.owned("b")[0])
	s.loads("k1", "a", "b", "c")
	s.until("a change of the keys", s.changesKeys)
	s.restartInPlace(time.Minute)
	gone := s.now
	s.until("the other shards are routed", func() bool { return !s.state.ChangesKeyConfig() })
	if took := s.now - gone; took > s.timing.DeadAfter/2 {
		t.Errorf("all shards were held for %v:\n%s", took, s)
	}
	if s.state.KeyConfig() != "k0" {
		t.Errorf("the keys are %s without a word of c:\n%s", s.state.KeyConfig(), s)
	}
	s.start("c")
	s.actor("c").follows, s.actor("c").term = "a", s.term
	clear(s.actor("b").runs)
	s.until("the keys are active", func() bool { return s.state.KeyConfig() == "k1" })
}
