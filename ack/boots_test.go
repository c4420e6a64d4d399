package ack_test

import (
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
)

// An empty data directory counts its boots from the start, so another process may use a known
// boot. It must use a higher one, because old crash evidence, which names a boot, would
// otherwise affect it.
func TestProcessWithKnownBootRaisesIt(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.crash("c")
	s.run(3 * time.Second) // everything on the old disk has ended
	s.actor("c").boot, s.actor("c").disk = 0, "2"
	s.start("c")
	c := s.actor("c")
	c.follows, c.term = "a", s.term
	hb := s.beat(c)
	l := s.leaders["a"]
	l.answered = nil
	s.step(l, leader.HeartbeatReceived{Heartbeat: hb, From: "c:2"})
	if len(l.answered) != 1 || l.answered[0].Refusal != ack.RefusedBoot || l.answered[0].KnownBoot <= hb.Boot {
		t.Fatalf("answers %+v, want a refusal that names a boot above %d", l.answered, hb.Boot)
	}
	s.actor("c").boot = l.answered[0].KnownBoot
	s.start("c")
	c.follows, c.term = "a", s.term
	s.until("c is back", func() bool { return s.serves("c") })
}

// The same disk counts its boots, so a boot that is not above the known one is from an older
// image or a copy. It is not raised, because the promises of the disk since then are lost.
func TestBootOfAnOlderImageIsARollback(t *testing.T) {
	for _, last := range []uint64{2, 1} { // the boot before
		s := serving(t, "a", "b", "c")
		for range 2 {
			s.crash("c")
			s.run(time.Second)
			s.start("c")
			s.actor("c").follows, s.actor("c").term = "a", s.term
			s.until("c is back", func() bool { return s.serves("c") })
		}
		s.crash("c")
		s.run(time.Second)
		s.actor("c").boot = last
		s.start("c")
		c := s.actor("c")
		c.follows, c.term = "a", s.term
		hb := s.beat(c)
		l := s.leaders["a"]
		l.answered = nil
		s.step(l, leader.HeartbeatReceived{Heartbeat: hb, From: "c:2"})
		if len(l.answered) != 1 || l.answered[0].Refusal != ack.RefusedRollback || l.answered[0].KnownBoot != 3 {
			t.Errorf("in boot %d: answers %+v, want a rollback that names boot 3", hb.Boot, l.answered)
		}
	}
}

// Evidence may be handled late. It does not affect a later boot, nor an earlier boot of a
// wiped disk.
func TestCrashEvidenceOfAnotherBootIsIgnored(t *testing.T) {
	for _, boot := range []uint64{1, 3} {
		s := servingUnder(t, ack.TakeoverImmediate, "a", "b")
		s.start("b") // its second boot
		b := s.actor("b")
		b.follows, b.term = "a", s.term
		s.elect("a")
		s.until("b serves", func() bool { return s.serves("b") })
		epoch := s.state.Proposed().Epoch()
		s.step(s.leaders["a"], leader.CrashEvidence{Node: "b", Boot: boot, Nonce: b.nonce, RedialStartedAt: s.now})
		s.run(90 * time.Millisecond)
		if s.state.Proposed().Epoch() != epoch {
			t.Errorf("evidence of boot %d made a round, b is in its boot 2:\n%s", boot, s)
		}
	}
}

// The disk of b was wiped, so its first boot was used twice. The leader knows only the second
// process, and evidence about the first arrives late. Without the nonce, the leader took the
// shards of a node that served them (simulation, scenes, seed 4003984).
func TestCrashEvidenceOfAnotherNonceIsIgnored(t *testing.T) {
	for _, nonce := range []uint64{0, 4711} {
		s := servingUnder(t, ack.TakeoverImmediate, "a", "b")
		s.elect("a")
		s.until("b serves", func() bool { return s.serves("b") })
		epoch := s.state.Proposed().Epoch()
		s.step(s.leaders["a"], leader.CrashEvidence{Node: "b", Boot: s.actor("b").boot, Nonce: nonce, RedialStartedAt: s.now})
		s.run(90 * time.Millisecond)
		if s.state.Proposed().Epoch() != epoch {
			t.Errorf("evidence of process %d made a round, b is another:\n%s", nonce, s)
		}
	}
}

// Without a heartbeat in its term, a leader cannot know the boot.
func TestNewLeaderAcceptsCrashEvidenceOfAnyBoot(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.crash("c")
	l := s.elect("a")
	s.step(l, leader.CrashEvidence{Node: "c", Boot: 1, RedialStartedAt: s.now})
	s.run(700 * time.Millisecond)
	if s.state.Committed().IsMember("c") {
		t.Errorf("c is gone and still owns %d shards:\n%s", s.state.Committed().ShardCount("c"), s)
	}
}
