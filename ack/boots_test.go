package ack_test

import (
	"testing"
	"time"

	"shardway/ack"
)

// A data directory that was emptied counts its boots from the start, so another
// process may come under the boot that was heard. It must take a higher one: old
// evidence, which names a boot, would hit it.
func TestProcessWithKnownBootRaisesIt(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.crash("c")
	s.run(3 * time.Second) // whatever ran on the old disk is over
	s.actor("c").boot, s.actor("c").disk = 0, "2"
	s.start("c")
	c := s.actor("c")
	c.follows, c.term = "a", s.term
	hb := s.beat(c)
	l := s.leaders["a"]
	l.answered = nil
	s.step(l, ack.HeartbeatReceived{Heartbeat: hb, From: "c:2"})
	if len(l.answered) != 1 || l.answered[0].Refusal != ack.RefusedBoot || l.answered[0].Known <= hb.Boot {
		t.Fatalf("answers %+v, want a refusal that names a boot above %d", l.answered, hb.Boot)
	}
	s.actor("c").boot = l.answered[0].Known
	s.start("c")
	c.follows, c.term = "a", s.term
	s.until("c is back", func() bool { return s.serves("c") })
}

// The same disk counts its boots, so a boot that is not above the one that was
// heard is one of an older image, or of a copy. It is not raised: what the disk has
// promised since is forgotten.
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
		s.step(l, ack.HeartbeatReceived{Heartbeat: hb, From: "c:2"})
		if len(l.answered) != 1 || l.answered[0].Refusal != ack.RefusedRollback || l.answered[0].Known != 3 {
			t.Errorf("in boot %d: answers %+v, want a rollback that names boot 3", hb.Boot, l.answered)
		}
	}
}

// Evidence may be handled late. It says nothing about a boot that it does not
// name: neither about a later one nor, when a disk was emptied, an earlier one.
func TestCrashEvidenceOfAnotherBootIsIgnored(t *testing.T) {
	for _, boot := range []uint64{1, 3} {
		s := servingUnder(t, ack.TakeoverImmediate, "a", "b")
		s.start("b") // its second boot
		b := s.actor("b")
		b.follows, b.term = "a", s.term
		s.elect("a")
		s.until("b serves", func() bool { return s.serves("b") })
		epoch := s.state.Last().Epoch()
		s.step(s.leaders["a"], ack.CrashEvidence{Node: "b", Boot: boot, Nonce: b.nonce, Began: s.now})
		s.run(90 * time.Millisecond)
		if s.state.Last().Epoch() != epoch {
			t.Errorf("evidence of boot %d made a round, b is in its boot 2:\n%s", boot, s)
		}
	}
}

// b's disk was emptied, so its first boot came twice. The leader heard only the
// second, and evidence about the first comes late: without the process's nonce it
// took the shards of a node that served them (simulation, scenes, seed 4003984).
func TestCrashEvidenceOfAnotherNonceIsIgnored(t *testing.T) {
	for _, nonce := range []uint64{0, 4711} {
		s := servingUnder(t, ack.TakeoverImmediate, "a", "b")
		s.elect("a")
		s.until("b serves", func() bool { return s.serves("b") })
		epoch := s.state.Last().Epoch()
		s.step(s.leaders["a"], ack.CrashEvidence{Node: "b", Boot: s.actor("b").boot, Nonce: nonce, Began: s.now})
		s.run(90 * time.Millisecond)
		if s.state.Last().Epoch() != epoch {
			t.Errorf("evidence of process %d made a round, b is another:\n%s", nonce, s)
		}
	}
}

// With nothing heard in its term a leader cannot know the boot.
func TestNewLeaderAcceptsCrashEvidenceOfAnyBoot(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.crash("c")
	l := s.elect("a")
	s.step(l, ack.CrashEvidence{Node: "c", Boot: 1, Began: s.now})
	s.run(700 * time.Millisecond)
	if s.state.Committed().Has("c") {
		t.Errorf("c is gone and still owns %d shards:\n%s", s.state.Committed().Count("c"), s)
	}
}
