package ack_test

import (
	"slices"
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// restartInPlace makes c send a goodbye that announces its return, and ends its process once the
// restart is in the log.
func (s *stage) restartInPlace(back time.Duration) {
	s.t.Helper()
	a := s.actor("c")
	a.goodbye, a.back = true, back
	s.until("c is absent", func() bool { return s.state.Restarting("c") })
	s.crash("c")
	a.goodbye, a.back = false, 0
}

// owned returns the owners and ownership epochs of a map.
func owned(m *shardmap.Map) []byte {
	d := m.Digest()
	return d[:]
}

// A process that restarts in place is down for longer than dead-after. No shard moves, and no
// map is proposed.
func TestRestartInPlaceMovesNothing(t *testing.T) {
	s := serving(t, "a", "b", "c")
	before, epoch := owned(s.state.Committed()), s.state.Proposed().Epoch()
	s.restartInPlace(8 * time.Second)
	s.run(6 * time.Second)
	s.start("c")
	s.actor("c").follows, s.actor("c").term = "a", s.term
	s.until("c is back", func() bool { return !s.state.Restarting("c") && s.serves("c") })
	s.run(5 * time.Second)
	if m := s.state.Committed(); !slices.Equal(owned(m), before) || s.state.Proposed().Epoch() != epoch {
		t.Errorf("the map changed:\n%s", s)
	}
	if _, ever := s.state.Drop("c"); ever {
		t.Errorf("c was dropped:\n%s", s)
	}
}

// Answers contain the index of the last restart entry. A process that has a lease before it
// has read its log that far knows that entries are missing.
func TestAnswersContainRestartIndex(t *testing.T) {
	s := serving(t, "a", "b", "c")
	tells := func() uint64 {
		d := &desk{t: t, now: time.Second, last: s.state.Proposed().Epoch(), beat: map[shardmap.NodeID]uint64{}, sent: map[shardmap.NodeID]uint64{}}
		d.l = leader.New(leader.Options{Server: "a/d", Term: 5, Pace: ack.DefaultPace(), Timing: ack.DefaultTiming(), State: s.state}, 0)
		a, ok := d.receiveHeartbeat("b", nil)
		if !ok || a.Refusal != 0 {
			t.Fatalf("answered %v: %+v", ok, a)
		}
		return a.RestartIndex
	}
	if n := tells(); n != 0 {
		t.Errorf("before any absence: %d, want 0", n)
	}
	s.restartInPlace(time.Minute)
	if n := tells(); n == 0 || n > s.state.Index() {
		t.Errorf("the last entry on an absence is %d, want one up to %d", n, s.state.Index())
	}
}

// The shards of a node that does not return are taken when its grace is over, and not before.
func TestNodeThatDoesNotReturnLosesItsShards(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.restartInPlace(3 * time.Second)
	s.run(2900 * time.Millisecond)
	if n := s.state.Proposed().ShardCount("c"); n != 4 {
		t.Fatalf("c is proposed with %d shards before its time is over:\n%s", n, s)
	}
	s.until("its shards are with others", func() bool { return !s.state.HasOpenProposal() && !s.state.Committed().IsMember("c") })
	if _, known := s.state.Restart("c"); known {
		t.Error("the map is without c, and its absence is remembered")
	}
}

// While a third node restarts, a node joins and the app of another becomes unhealthy. Their
// shards move at once, and those of the third do not.
func TestShardsOfOtherNodesMoveDuringARestart(t *testing.T) {
	s := serving(t, "a", "b", "c")
	had := slices.Collect(s.state.Committed().Shards("c"))
	s.restartInPlace(time.Minute)
	s.start("d")
	s.actor("d").follows, s.actor("d").term = "a", s.term
	s.run(2 * time.Second)
	if s.state.HasOpenProposal() || s.state.Committed().ShardCount("d") == 0 {
		t.Errorf("d owns nothing:\n%s", s)
	}
	s.actor("b").unhealthy = true
	s.run(time.Second)
	if m := s.state.Committed(); m.IsMember("b") || !slices.Equal(slices.Collect(m.Shards("c")), had) {
		t.Errorf("b owns %d, c %v, had %v:\n%s", m.ShardCount("b"), slices.Collect(m.Shards("c")), had, s)
	}
}

// The next leader gets the restart from the log, and measures the grace again.
func TestRestartOutlivesItsLeader(t *testing.T) {
	s := serving(t, "a", "b", "c")
	epochOf := s.state.Committed().OwnedSince(slices.Collect(s.state.Committed().Shards("c"))[0])
	s.restartInPlace(5 * time.Second)
	s.run(3 * time.Second)
	s.elect("b")
	s.run(4 * time.Second)
	if !s.state.Restarting("c") || s.state.Committed().ShardCount("c") != 4 {
		t.Fatalf("after an election c is absent: %v, and owns %d:\n%s", s.state.Restarting("c"), s.state.Committed().ShardCount("c"), s)
	}
	s.start("c")
	s.actor("c").follows, s.actor("c").term = "b", s.term
	s.until("c serves", func() bool { return !s.state.Restarting("c") && s.serves("c") })
	if m := s.state.Committed(); m.OwnedSince(slices.Collect(m.Shards("c"))[0]) != epochOf {
		t.Error("its ownership epochs changed")
	}
}

// A leader that has not received the releases of a restarting node delays the restart entry
// for them, up to a limit. Meanwhile nothing moves.
func TestRestartEntryWaitsForReleases(t *testing.T) {
	for _, arrives := range []bool{true, false} {
		s := serving(t, "a", "b", "c")
		shards := slices.Collect(s.state.Committed().Shards("c"))
		c := s.actor("c")
		c.keeps = &ack.Releases{FormatVersion: ack.MinFormatVersion, Node: "c", Server: c.last.Server, Boot: c.last.Boot, Shards: []ack.Released{{Shard: shards[0]}}}
		c.goodbye, c.back = true, time.Minute
		s.run(100 * time.Millisecond)
		s.elect("b")
		s.run(400 * time.Millisecond)
		if s.state.Restarting("c") {
			t.Fatalf("its absence is written without what it keeps:\n%s", s)
		}
		if arrives {
			s.step(s.leaders["b"], leader.ReleasesReceived{Releases: *c.keeps})
		}
		if s.run(200 * time.Millisecond); !s.state.Restarting("c") {
			t.Fatalf("its absence is not written (arrived: %v):\n%s", arrives, s)
		}
		if k, kept := s.state.KeptRelease(shards[0]); kept != arrives || kept && k.Boot != c.last.Boot {
			t.Errorf("kept: %v %+v, though it has arrived: %v", kept, k, arrives)
		}
		if s.run(time.Second); s.state.HasOpenProposal() || !slices.Equal(slices.Collect(s.state.Committed().Shards("c")), shards) {
			t.Errorf("its shards moved:\n%s", s)
		}
	}
}

// Each process that sends a goodbye gets this wait.
func TestEachLeaveNoticeRestartsTheWait(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.restartInPlace(time.Minute)
	before, _ := s.state.Restart("c")
	s.run(time.Second)
	c := s.actor("c")
	c.keeps = &ack.Releases{FormatVersion: ack.MinFormatVersion, Node: "c", Server: "c/1", Boot: 2, Shards: []ack.Released{{Shard: 0}}}
	s.start("c")
	s.follow(c)
	c.goodbye, c.back = true, time.Minute
	s.run(400 * time.Millisecond)
	if a, _ := s.state.Restart("c"); a != before {
		t.Errorf("its next absence is written without what it keeps:\n%s", s)
	}
	s.until("it is written", func() bool { a, _ := s.state.Restart("c"); return a.Boot > before.Boot })
}

// Shards that are moving do not wait for these releases.
func TestOpenProposalDoesNotWaitForReleases(t *testing.T) {
	s := serving(t, "a", "b", "c")
	b, c := s.actor("b"), s.actor("c")
	b.busy = true
	s.start("d")
	s.follow(s.actor("d"))
	s.until("it is proposed that d gets some", func() bool { return s.state.HasOpenProposal() })
	s.run(300 * time.Millisecond) // all have acknowledged, but b
	c.keeps = &ack.Releases{FormatVersion: ack.MinFormatVersion, Node: "c", Server: c.last.Server, Boot: c.last.Boot, Shards: []ack.Released{{Shard: 0}}}
	c.goodbye, c.back = true, time.Minute
	s.run(50 * time.Millisecond)
	b.busy = false
	if s.run(100 * time.Millisecond); s.state.HasOpenProposal() || !s.state.Committed().IsMember("d") {
		t.Errorf("it is not committed:\n%s", s)
	}
}

// If another node fails, its shards do not wait for these releases.
func TestLostNodeDoesNotWaitForReleases(t *testing.T) {
	s := serving(t, "a", "b", "c", "d")
	c := s.actor("c")
	c.keeps = &ack.Releases{FormatVersion: ack.MinFormatVersion, Node: "c", Server: c.last.Server, Boot: c.last.Boot, Shards: []ack.Released{{Shard: 0}}}
	c.goodbye, c.back = true, time.Minute
	s.actor("d").unhealthy = true
	s.run(300 * time.Millisecond)
	if !s.state.Restarting("c") || s.state.Proposed().IsMember("d") {
		t.Errorf("c is absent: %v, d is lost and in the map: %v\n%s", s.state.Restarting("c"), s.state.Proposed().IsMember("d"), s)
	}
}

// The old process continues forever after its goodbye. It gets the grace once.
func TestSlowlyStoppingNodeGetsItsTimeOnce(t *testing.T) {
	s := serving(t, "a", "b", "c")
	c := s.actor("c")
	c.goodbye, c.back = true, 2*time.Second
	s.until("its shards are with others", func() bool { return !s.state.HasOpenProposal() && !s.state.Committed().IsMember("c") })
	s.elect("b")
	s.run(5 * time.Second)
	if s.state.Restarting("c") || s.state.Committed().IsMember("c") || c.leased {
		t.Errorf("absent: %v, in the map: %v, with a lease: %v", s.state.Restarting("c"), s.state.Committed().IsMember("c"), c.leased)
	}
}

// Running requests get the drain timeout before a restarting node sends its goodbye.
func TestLeaveNoticeBeforeRestartWaitsForRequests(t *testing.T) {
	s := serving(t, "a", "b", "c")
	c := s.actor("c")
	c.busy, c.goodbye, c.back = true, true, 8*time.Second
	s.run(4900 * time.Millisecond)
	if !c.busy || c.last.Goodbye {
		t.Fatalf("cut before drain-timeout: %v, goodbye: %v", !c.busy, c.last.Goodbye)
	}
	if c.leased {
		t.Error("it still admits")
	}
	s.until("it is absent", func() bool { return s.state.Restarting("c") })
	if c.busy {
		t.Error("goodbye before what ran was cut")
	}
}

// While a node restarts, its log may lag. The deadlines for lag and acknowledgement start at
// the end of the restart, so the node is not dropped for it.
func TestAckDeadlineStartsAtTheEndOfARestart(t *testing.T) {
	s := serving(t, "a", "b", "c")
	c := s.actor("c")
	c.goodbye, c.back = true, 20*time.Second
	s.until("c is absent", func() bool { return s.state.Restarting("c") })
	c.held = true
	s.start("d")
	s.actor("d").follows, s.actor("d").term = "a", s.term
	s.until("d owns something", func() bool { return s.state.Committed().ShardCount("d") > 0 })
	s.until("c is in no map", func() bool { return !s.state.Proposed().IsMember("c") })
	if d, ever := s.state.Drop("c"); ever {
		t.Errorf("c was dropped: %v:\n%s", d.Cause, s)
	}
}

// Every ingress holds requests for the shards of a restarting node. The node itself serves as
// soon as it may.
func TestShardsOfARestartingNodeAreHeld(t *testing.T) {
	s := serving(t, "a", "b", "c")
	shard := slices.Collect(s.state.Committed().Shards("c"))[0]
	s.restartInPlace(time.Minute)
	if r := ack.NewRouting("a", s.state, 1, false).Route(shard); r.Kind != ack.QueuedRestarting {
		t.Errorf("at a it is %v", r.Kind)
	}
	if r := ack.NewRouting("c", s.state, 1, false).Route(shard); r.Kind != ack.RouteLocal {
		t.Errorf("at c it is %v", r.Kind)
	}
}

// A heartbeat that announces a return must be a goodbye.
func TestAnnouncedReturnRequiresLeaveNotice(t *testing.T) {
	b, _ := ack.Heartbeat{Node: "a", Server: "a/d", Boot: 1, Number: 1, Weight: 1, RestartWithin: time.Second}.MarshalBinary()
	if err := new(ack.Heartbeat).UnmarshalBinary(b); err == nil {
		t.Error("back without goodbye is taken")
	}
}
