package ack_test

import (
	"slices"
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// report makes the nodes report that they cannot connect to subject.
func (s *stage) report(subject shardmap.NodeID, reporters ...shardmap.NodeID) {
	for _, id := range reporters {
		s.actor(id).unreachable = []shardmap.NodeID{subject}
	}
}

// reachable ends all reports.
func (s *stage) reachable() {
	for _, a := range s.actors {
		a.unreachable = nil
	}
}

// isMember reports whether the last map contains the node.
func (s *stage) isMember(id shardmap.NodeID) bool { return s.state.Proposed().IsMember(id) }

// Most members cannot connect to d for longer than dead-after. The leader excludes it, and d hands its shards over in
// order: it keeps its lease until it has acknowledged.
func TestMemberThatMostMembersCannotReachIsExcluded(t *testing.T) {
	s := serving(t, "a", "b", "c", "d")
	began := s.now
	s.report("d", "b", "c")
	s.run(s.timing.DeadAfter - 200*ms)
	if !s.isMember("d") {
		t.Fatalf("d was excluded before dead-after:\n%s", s)
	}
	s.actor("d").runs = map[shardmap.Shard]bool{firstShardOf(s.state.Committed(), "d"): true} // a request that runs until it is cut
	s.until("d is excluded", func() bool { return s.state.IsDropped("d") })
	if took := s.now - began; took > s.timing.DeadAfter+300*ms {
		t.Errorf("excluded after %v, want about %v", took, s.timing.DeadAfter)
	}
	s.run(700 * ms) // longer than a lease
	if s.actor("d").machine.LeaseRemaining(s.now) <= 0 || s.state.Committed().ShardCount("d") == 0 {
		t.Fatalf("d has lost its lease or its shards while it drains:\n%s", s)
	}
	s.actor("d").runs = nil
	s.until("the other nodes own the shards", func() bool { return s.state.Committed().ShardCount("d") == 0 && !s.state.HasOpenProposal() })
	if drop, _ := s.state.Drop("d"); drop.Cause != ack.CauseUnreachable || drop.ConsecutiveDrops != 1 {
		t.Errorf("drop %+v", drop)
	}
	if e := s.excluded[0]; e.Sign != leader.SignReports || !slices.Equal(e.Reporters, []shardmap.NodeID{"b", "c"}) {
		t.Errorf("excluded because of %v, reporters %v", e.Sign, e.Reporters)
	}
	s.run(10 * time.Second)
	if s.isMember("d") {
		t.Errorf("d returned while it is reported:\n%s", s)
	}
	s.reachable()
	ended := s.now
	s.until("d returns", func() bool { return s.serves("d") })
	if took := s.now - ended; took < s.timing.DeadAfter || took > s.timing.DeadAfter+time.Second {
		t.Errorf("d returned after %v, want %v", took, s.timing.DeadAfter)
	}
}

// firstShardOf returns the first shard that the node owns.
func firstShardOf(from *shardmap.Map, id shardmap.NodeID) shardmap.Shard {
	for shard := range from.Shards(id) {
		return shard
	}
	return 0
}

// A member that does not acknowledge its exclusion loses its lease at the deadline, and its shards after dead-after.
func TestUnreachableMemberThatDoesNotAcknowledgeLosesItsShards(t *testing.T) {
	s := serving(t, "a", "b", "c", "d")
	s.report("d", "b", "c")
	s.run(s.timing.DeadAfter - 200*ms)
	s.actor("d").held = true
	s.until("d is excluded", func() bool { return s.state.IsDropped("d") })
	at := s.now
	s.until("the other nodes own the shards", func() bool { return s.state.Committed().ShardCount("d") == 0 })
	if took, least := s.now-at, s.pace.AckDeadline()+s.timing.DeadAfter-100*ms; took < least || took > least+time.Second {
		t.Errorf("taken after %v, want %v", took, least)
	}
}

func TestReportsThatExcludeNoNode(t *testing.T) {
	for name, c := range map[string]struct {
		nodes  []shardmap.NodeID
		report func(s *stage)
	}{
		"a minority":               {[]shardmap.NodeID{"a", "b", "c", "d", "e"}, func(s *stage) { s.report("e", "b", "c") }},
		"one of two other members": {[]shardmap.NodeID{"a", "b", "c"}, func(s *stage) { s.report("c", "b"); s.report("b", "c") }},
		"the other of two members": {[]shardmap.NodeID{"a", "b"}, func(s *stage) { s.report("b", "a"); s.report("a", "b") }},
		"a node about itself":      {[]shardmap.NodeID{"a", "b", "c", "d"}, func(s *stage) { s.report("d", "b", "d") }},
		"two halves and one bridge": {[]shardmap.NodeID{"a", "b", "c", "d", "e"}, func(s *stage) {
			for _, id := range []shardmap.NodeID{"b", "c"} {
				s.actor(id).unreachable = []shardmap.NodeID{"d", "e"}
			}
			for _, id := range []shardmap.NodeID{"d", "e"} {
				s.actor(id).unreachable = []shardmap.NodeID{"b", "c"}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := serving(t, c.nodes...)
			c.report(s)
			s.run(4 * s.timing.DeadAfter)
			if len(s.excluded) > 0 || s.state.HasOpenProposal() || len(s.state.Proposed().Members()) != len(c.nodes) {
				t.Errorf("excluded %v:\n%s", s.excluded, s)
			}
		})
	}
}

// Only members with a lease count, and only what their newest process reports.
func TestReportsOfNodesWithoutALeaseDoNotCount(t *testing.T) {
	s := newStage(t, "a", "b", "c", "d", "e", "f")
	s.actor("e").gateway, s.actor("f").gateway = true, true
	s.start("a", "b", "c", "d", "e", "f")
	s.elect("a")
	s.run(2 * time.Second)
	s.report("d", "b", "e", "f")
	s.run(4 * s.timing.DeadAfter)
	if len(s.excluded) > 0 {
		t.Fatalf("excluded %v because of gateways:\n%s", s.excluded, s)
	}
	s.actor("c").mute = true
	s.report("d", "c")
	s.run(2 * s.timing.DeadAfter)
	if s.state.IsDropped("d") {
		t.Errorf("d was excluded because of a member without a lease:\n%s", s)
	}
}

// An interruption restarts the time, and so do a new process and a new leader.
func TestReportsMustLastWithoutInterruption(t *testing.T) {
	for name, interrupt := range map[string]func(s *stage){
		"the reports end": func(s *stage) {
			s.reachable()
			s.run(200 * ms)
			s.report("d", "b", "c")
		},
		"a new process": func(s *stage) {
			s.crash("d")
			s.start("d")
			s.actor("d").follows, s.actor("d").term = "a", s.term
			s.run(200 * ms)
		},
		"a new leader": func(s *stage) { s.elect("b") },
		"a leader that stood still": func(s *stage) {
			s.now += time.Minute
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serving(t, "a", "b", "c", "d")
			s.report("d", "b", "c")
			s.run(s.timing.DeadAfter - 400*ms)
			interrupt(s)
			interrupted := s.now
			s.until("d is excluded", func() bool {
				return s.state.IsDropped("d") && len(s.excluded) > 0 && s.excluded[len(s.excluded)-1].Cause == ack.CauseUnreachable
			})
			least := s.timing.DeadAfter - 200*ms
			if name == "a leader that stood still" {
				least = 300 * ms
			}
			if took := s.now - interrupted; took < least {
				t.Errorf("excluded %v after the interruption, want at least %v:\n%s", took, least, s)
			}
		})
	}
}

// A node whose connections fail again and again returns later each time.
func TestUnreachableMemberReturnsLaterEachTime(t *testing.T) {
	s := serving(t, "a", "b", "c", "d")
	for i, pause := range []time.Duration{0, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
		s.report("d", "b", "c")
		s.until("d is excluded", func() bool { return s.state.IsDropped("d") })
		s.run(time.Second)
		if i == 2 {
			s.elect("b") // the log contains the number
			s.run(time.Second)
		}
		s.reachable()
		ended := s.now
		s.until("d returns", func() bool { return s.serves("d") })
		if took, least := s.now-ended, s.timing.DeadAfter+pause; took < least || took > least+time.Second {
			t.Errorf("return %d: after %v, want %v", i+1, took, least)
		}
	}
}

// An election alone does not bring an excluded node back.
func TestUnreachableMemberStaysExcludedAfterAnElection(t *testing.T) {
	s := serving(t, "a", "b", "c", "d")
	s.report("d", "b", "c")
	s.until("d is excluded", func() bool { return s.state.IsDropped("d") && !s.state.HasOpenProposal() })
	for _, id := range []shardmap.NodeID{"b", "c", "a"} {
		s.elect(id)
		s.run(2 * s.timing.DeadAfter)
		if s.isMember("d") {
			t.Fatalf("d returned after an election:\n%s", s)
		}
	}
}

// If only the leader reaches the other nodes, it excludes less than half of them, one after the other.
func TestLessThanHalfOfTheNodesAreExcluded(t *testing.T) {
	nodes := []shardmap.NodeID{"a", "b", "c", "d", "e"}
	s := serving(t, nodes...)
	for _, id := range nodes[1:] {
		s.actor(id).unreachable = slices.DeleteFunc(slices.Clone(nodes[1:]), func(other shardmap.NodeID) bool { return other == id })
	}
	s.run(20 * time.Second)
	if got := len(s.state.Committed().Members()); got != 3 || len(s.excluded) != 2 || s.excluded[0].Node != "b" || s.excluded[1].Node != "c" {
		t.Errorf("%d members, excluded %v:\n%s", got, s.excluded, s)
	}
}

// An excluded node returns at once if no other node can own shards.
func TestUnreachableMemberReturnsIfNoOtherNodeCanOwnShards(t *testing.T) {
	s := serving(t, "a", "b", "c", "d")
	s.report("d", "b", "c")
	s.until("d is excluded", func() bool { return s.state.IsDropped("d") && !s.state.HasOpenProposal() })
	for _, id := range []shardmap.NodeID{"a", "b", "c"} {
		s.actor(id).leaving = true
	}
	s.until("d owns all shards", func() bool { return s.serves("d") && s.state.Committed().ShardCount("d") == s.state.Committed().Len() })
}

// Events name what showed the failure first.
func TestExclusionNamesItsFirstSign(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(s *stage)
		want leader.FailureSign
	}{
		"silence": {func(s *stage) { s.actor("c").mute = true }, leader.SignHeartbeat},
		"crash": {func(s *stage) {
			s.crash("c")
			s.step(s.leaders["a"], leader.CrashEvidence{Node: "c", Boot: 1, Nonce: s.actor("c").nonce, RedialStartedAt: s.now})
		}, leader.SignRefused},
		"gossip, then silence": {func(s *stage) {
			s.step(s.leaders["a"], leader.GossipStatus{Node: "c", Failed: true})
			s.actor("c").mute = true
		}, leader.SignGossip},
		"gossip that was wrong, then silence": {func(s *stage) {
			s.step(s.leaders["a"], leader.GossipStatus{Node: "c", Failed: true})
			s.step(s.leaders["a"], leader.GossipStatus{Node: "c"})
			s.actor("c").mute = true
		}, leader.SignHeartbeat},
		"missed acknowledgement": {func(s *stage) { s.actor("c").held, s.actor("b").weight = true, 2 }, leader.SignAcknowledgement},
	} {
		t.Run(name, func(t *testing.T) {
			s := serving(t, "a", "b", "c")
			c.fail(s)
			s.until("c is excluded", func() bool { return len(s.excluded) > 0 })
			if e := s.excluded[0]; e.Node != "c" || e.Sign != c.want {
				t.Errorf("%s excluded, first sign %v, want %v", e.Node, e.Sign, c.want)
			}
		})
	}
}

// Before the format version with reports is in force, nodes send none, and a leader ignores them.
func TestReportsNeedTheirFormatVersion(t *testing.T) {
	heartbeat := ack.Heartbeat{FormatVersion: ack.PeerReportsFormatVersion, Node: "a", Server: "a/1", Boot: 1, Number: 1, Weight: 1}
	before, _ := heartbeat.MarshalBinary()
	heartbeat.Unreachable = []shardmap.NodeID{"b", "c"}
	for _, instances := range []shardmap.InstanceSet{0, shardmap.InstancesUpTo(3)} {
		heartbeat.Instances = instances
		encoded, _ := heartbeat.MarshalBinary()
		var read ack.Heartbeat
		if err := read.UnmarshalBinary(encoded); err != nil || !slices.Equal(read.Unreachable, heartbeat.Unreachable) || read.Instances != instances {
			t.Errorf("%+v, %v", read, err)
		}
		encoded[0] = byte(ack.PeerReportsFormatVersion - 1)
		if err := read.UnmarshalBinary(encoded); err == nil {
			t.Error("read at the format version before")
		}
	}
	heartbeat.Instances, heartbeat.Unreachable = 0, []shardmap.NodeID{"c", "b"}
	unordered, _ := heartbeat.MarshalBinary()
	if err := new(ack.Heartbeat).UnmarshalBinary(unordered); err == nil {
		t.Error("an unordered list was read")
	}
	heartbeat.Unreachable, heartbeat.FormatVersion = []shardmap.NodeID{"b"}, ack.PeerReportsFormatVersion-1
	omitted, _ := heartbeat.MarshalBinary()
	if !slices.Equal(omitted[1:], before[1:]) {
		t.Errorf("encoded at the format version before: %x", omitted)
	}
}
