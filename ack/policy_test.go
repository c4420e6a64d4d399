package ack_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// changePolicy asks a leader for changes.
func (s *stage) changePolicy(id shardmap.NodeID, changes ...ack.Change) {
	s.t.Helper()
	l := s.leaders[id]
	_, effects, err := l.turn.ChangePolicy(changes)
	s.effect(l, slices.Clone(effects))
	if err != nil {
		s.t.Fatalf("%s refuses %+v: %v", id, changes, err)
	}
}

func drain(id shardmap.NodeID) ack.Change { return ack.Change{Kind: ack.ChangeDrain, Node: id} }

func uncordon(id shardmap.NodeID) ack.Change { return ack.Change{Kind: ack.ChangeUncordon, Node: id} }

func pause(d time.Duration) ack.Change { return ack.Change{Kind: ack.ChangePause, Duration: d} }

// A drained node only loses its shards: it keeps its lease, so it is ready and forwards
// requests, and it confirms the leader.
func TestDrainedNodeOwnsNothingAndKeepsItsLease(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.changePolicy("a", drain("c"))
	s.until("c owns nothing", func() bool { return !s.state.HasOpenProposal() && s.state.Committed().ShardCount("c") == 0 })
	s.run(10 * time.Second)
	if m := s.state.Committed(); m.IsMember("c") || m.ShardCount("a") != 6 || m.ShardCount("b") != 6 || s.state.IsDropped("c") {
		t.Errorf("drained: %v, a owns %d, b %d, c dropped: %v", m.Members(), m.ShardCount("a"), m.ShardCount("b"), s.state.IsDropped("c"))
	}
	if !s.actor("c").leased {
		t.Error("the drained node has no lease: it would not be ready")
	}
	s.changePolicy("a", uncordon("c"))
	s.until("c owns shards again", func() bool { return s.state.Committed().ShardCount("c") == 4 })
	if !strings.Contains(s.String(), "a proposes: uncordon") || strings.Contains(s.String(), "a proposes: join") {
		t.Errorf("the move back has another reason than uncordon:\n%s", s)
	}
}

// During a drain a new leader is elected. The drained node has not sent it a heartbeat yet,
// but must not be dropped as dead, because requests forwarded to it would be aborted.
func TestDrainThroughAnElectionDropsNoNode(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.actor("c").busy = true
	s.changePolicy("a", drain("c"))
	s.until("the drain is proposed", func() bool { return s.state.HasOpenProposal() })
	s.elect("b")
	s.until("c owns nothing", func() bool { return !s.state.HasOpenProposal() && s.state.Committed().ShardCount("c") == 0 })
	if _, ever := s.state.Drop("c"); ever {
		t.Errorf("the drained node was dropped:\n%s", s)
	}
}

func TestCordonPinAndWeightMoveShards(t *testing.T) {
	s := serving(t, "a", "b")
	shard := slices.Collect(s.state.Committed().Shards("a"))[0]
	s.changePolicy("a", ack.Change{Kind: ack.ChangePin, Shard: shard, Node: "b"})
	s.until("the pinned shard moved", func() bool { return s.state.Committed().Owner(shard) == "b" })
	s.changePolicy("a", ack.Change{Kind: ack.ChangeWeight, Node: "a", Weight: 2})
	s.until("a has twice as many", func() bool { return s.state.Committed().ShardCount("a") == 8 })
	s.changePolicy("a", ack.Change{Kind: ack.ChangeCordon, Node: "c"})
	s.start("c")
	s.actor("c").follows, s.actor("c").term = "a", s.term
	s.until("c is in the map", func() bool { return s.state.Committed().IsMember("c") })
	s.run(5 * time.Second)
	if n := s.state.Committed().ShardCount("c"); n != 0 {
		t.Errorf("the cordoned newcomer owns %d shards", n)
	}
}

// A pause delays joining nodes, and not the takeover of lost shards.
func TestPauseHoldsUpJoinsAndNoLoss(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.changePolicy("a", pause(time.Hour))
	s.start("d")
	s.actor("d").follows, s.actor("d").term = "a", s.term
	s.run(3 * time.Second)
	if n := s.state.Committed().ShardCount("d"); n != 0 {
		t.Errorf("paused: the newcomer owns %d shards", n)
	}
	lost := slices.Collect(s.state.Committed().Shards("c"))
	s.crash("c")
	s.run(6 * time.Second)
	for _, shard := range lost {
		if owner := s.state.Committed().Owner(shard); owner == "" || owner == "c" {
			t.Errorf("paused: shard %d of the dead is with %q", shard, owner)
		}
	}
	s.changePolicy("a", ack.Change{Kind: ack.ChangeResume})
	s.until("it is even again", func() bool {
		return s.state.Committed().ShardCount("d") == 4 && s.state.Committed().ShardCount("a") == 4
	})
}

// Clocks are never compared: a new leader does not know how long the pause has lasted, and
// starts again.
func TestPauseRestartsAfterAnElection(t *testing.T) {
	s := serving(t, "a", "b")
	s.changePolicy("a", pause(10*time.Second))
	s.run(9 * time.Second)
	s.elect("b")
	s.run(9 * time.Second)
	if s.state.Policy().Pause == 0 {
		t.Error("the pause is over 9 s after an election, want 10 s")
	}
	s.run(2 * time.Second)
	if s.state.Policy().Pause != 0 {
		t.Error("the pause is not over 11 s after an election, want 10 s")
	}
	s.changePolicy("b", pause(10*time.Second))
	s.run(9 * time.Second)
	s.changePolicy("b", pause(10*time.Second)) // the same again, which starts again
	s.run(9 * time.Second)
	if s.state.Policy().Pause == 0 {
		t.Error("asked for again after 9 s, the pause of 10 s is over after 18 s")
	}
}

// A change requested from an earlier leader may have been reverted since.
func TestPolicyChangeOfEarlierTermIsVoid(t *testing.T) {
	s := serving(t, "a", "b")
	s.stuck = true
	s.changePolicy("a", drain("b"))
	entry, was := s.waiting[0].entry, s.state
	if next, outcome, err := was.Apply(was.Index()+1, s.term+1, entry); err != nil || outcome != ack.OutcomeIgnored || len(next.Policy().Drained) > 0 {
		t.Errorf("in the next term: outcome %d, %v, drained %v", outcome, err, next.Policy().Drained)
	}
	if next, outcome, err := was.Apply(was.Index()+1, s.term, entry); err != nil || outcome != ack.OutcomePolicyChanged || !next.Policy().Drained["b"] {
		t.Errorf("in its term: outcome %d, %v, drained %v", outcome, err, next.Policy().Drained)
	}
	if _, outcome, _ := ack.NewState().Apply(1, s.term, entry); outcome != ack.OutcomeIgnored {
		t.Errorf("before the birth: outcome %d", outcome)
	}
}

func stageWithPolicy(t *testing.T) *stage {
	t.Helper()
	s := serving(t, "a", "b", "c")
	s.changePolicy("a", drain("c"), ack.Change{Kind: ack.ChangeCordon, Node: "b"}, pause(time.Hour), ack.Change{Kind: ack.ChangeWeight, Node: "a", Weight: 3},
		ack.Change{Kind: ack.ChangePin, Shard: 1, Node: "b"}, ack.Change{Kind: ack.ChangePin, Shard: 2, Zone: "z"})
	s.run(time.Second)
	return s
}

// Cordons, drains and pauses concern nodes that may be gone.
func TestOnlyPinsAndWeightsOutliveTheCluster(t *testing.T) {
	s := stageWithPolicy(t).state
	want := fmt.Sprintf("%+v", *s.Policy())
	b, _ := s.MarshalBinary()
	if again, err := ack.DecodeState(b); err != nil || fmt.Sprintf("%+v", *again.Policy()) != want {
		t.Errorf("snapshot: %v, policy %+v, want %s", err, *again.Policy(), want)
	}
	b, _ = s.Backup()
	saved, err := ack.OpenBackup(b)
	if err != nil {
		t.Fatal(err)
	}
	n, err := saved.Recovered("c2", saved.MaxIndex()+ack.MinIndexGap)
	if err != nil {
		t.Fatal(err)
	}
	p := n.Policy()
	if len(p.Drained) > 0 || len(p.Cordoned) > 0 || p.Pause > 0 || p.PauseIndex > 0 {
		t.Errorf("recovered: %+v, want nothing drained, cordoned or paused", *p)
	}
	if p.Weights["a"] != 3 || p.Pins[1].Node != "b" || p.Pins[2].Zone != "z" {
		t.Errorf("recovered: %+v, want weights and pins as they were", *p)
	}
}

// Rule 10: without members the last map remains. If the only survivor of a lost quorum were
// still drained, all shards would stay with dead nodes.
func TestDrainedSurvivorOwnsEverythingAfterRecovery(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.changePolicy("a", drain("c"))
	s.until("c owns nothing", func() bool { return !s.state.HasOpenProposal() && s.state.Committed().ShardCount("c") == 0 })
	n, err := s.state.Recovered("c2", s.state.MaxIndex()+ack.MinIndexGap)
	if err != nil {
		t.Fatal(err)
	}
	after := newStage(t, "c")
	after.state, after.index, after.term = n, n.Index(), s.term
	after.start("c")
	after.elect("c")
	after.until("the survivor owns everything", func() bool { return after.state.Committed().ShardCount("c") == 12 })
}

func TestForgottenNodeHasNoRecord(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.changePolicy("a", ack.Change{Kind: ack.ChangeCordon, Node: "c"}, ack.Change{Kind: ack.ChangeWeight, Node: "c", Weight: 3},
		ack.Change{Kind: ack.ChangePin, Shard: 1, Node: "c"}, ack.Change{Kind: ack.ChangePin, Shard: 2, Node: "b"})
	s.crash("c")
	s.until("c is dropped", func() bool { return !s.state.HasOpenProposal() && s.state.IsDropped("c") })
	s.changePolicy("a", ack.Change{Kind: ack.ChangeForgetNode, Node: "c"})
	s.run(time.Second)
	p := s.state.Policy()
	if _, known := s.state.Drop("c"); known || p.Cordoned["c"] || p.Weights["c"] > 0 || len(p.Pins) != 1 {
		t.Errorf("forgotten: drop known %v, policy %+v", known, *p)
	}
}

func TestPolicyIsBounded(t *testing.T) {
	s := serving(t, "a", "b")
	l := s.leaders["a"]
	full := false
	for i := 0; i < 2000 && !full; {
		var some []ack.Change
		for range 10 {
			some = append(some, ack.Change{Kind: ack.ChangeWeight, Node: shardmap.NodeID(fmt.Sprintf("%060d", i)), Weight: 1})
			i++
		}
		_, effects, err := l.turn.ChangePolicy(some)
		s.effect(l, slices.Clone(effects))
		if full = errors.Is(err, ack.ErrPolicyFull); err != nil && !full {
			t.Fatal(err)
		}
	}
	s.run(time.Minute)
	if n := len(s.state.Policy().Weights); !full || n < 900 || n > 1100 {
		t.Errorf("full: %v, %d weights are known, want about 64 KiB of them", full, n)
	}
	b, _ := s.state.MarshalBinary()
	if _, err := ack.DecodeState(b); err != nil {
		t.Errorf("a full policy: %v", err)
	}
	s.changePolicy("a", ack.Change{Kind: ack.ChangeWeight, Node: shardmap.NodeID(strings.Repeat("0", 60))}) // less is no more
}

// A newly elected leader may not know all committed entries.
func TestPolicyChangeWaitsForTheBarrier(t *testing.T) {
	s := serving(t, "a", "b")
	l := s.electStuck("b")
	if _, _, err := l.turn.ChangePolicy([]ack.Change{drain("a")}); !errors.Is(err, leader.ErrNotYet) {
		t.Errorf("before the barrier: %v", err)
	}
}

// A change may come from another node, with any content. A change that cannot be decoded must
// not enter the log: every node would stop at that entry, and again after each start.
func TestChangesThatCannotBeReadAreRefused(t *testing.T) {
	long := strings.Repeat("x", 65)
	for name, c := range map[string]ack.Change{
		"no kind":          {},
		"a kind of later":  {Kind: ack.ChangeRemoveService + 1, Node: "b"},
		"no service":       {Kind: ack.ChangeAddService, Shards: 1},
		"a bad service":    {Kind: ack.ChangeAddService, Service: "Chat", Shards: 1},
		"a long service":   {Kind: ack.ChangeRemoveService, Service: long},
		"no shards":        {Kind: ack.ChangeAddService, Service: "chat"},
		"negative shards":  {Kind: ack.ChangeAddService, Service: "chat", Shards: -1},
		"many shards":      {Kind: ack.ChangeAddService, Service: "chat", Shards: ack.MaxShards + 1},
		"all shards":       {Kind: ack.ChangeAddService, Service: "chat", Shards: ack.MaxShards},
		"an old service":   {Kind: ack.ChangeAddService, Service: "default", Shards: 1},
		"another service":  {Kind: ack.ChangeRemoveService, Service: "chat"},
		"the last service": {Kind: ack.ChangeRemoveService, Service: "default"},
		"nobody":           drain(""),
		"a long id":        drain(shardmap.NodeID(long)),
		"nobody cordoned":  {Kind: ack.ChangeCordon},
		"a weight":         {Kind: ack.ChangeWeight, Node: "b", Weight: shardmap.MaxWeight + 1},
		"a shard":          {Kind: ack.ChangePin, Shard: ack.MaxShards, Node: "b"},
		"no shard":         {Kind: ack.ChangeUnpin, Shard: ack.MaxShards},
		"a pin to nowhere": {Kind: ack.ChangePin, Shard: 1},
		"a pin to two":     {Kind: ack.ChangePin, Shard: 1, Node: "b", Zone: "east"},
		"a long zone":      {Kind: ack.ChangePin, Shard: 1, Zone: long},
		"no pause":         pause(0),
		"a past pause":     pause(-time.Second),
		"a long pause":     pause(ack.MaxPause + 1),
		"nobody emptied":   {Kind: ack.ChangeDrainGradually, Duration: time.Second},
		"no time to empty": {Kind: ack.ChangeDrainGradually, Node: "b"},
		"a long emptying":  {Kind: ack.ChangeDrainGradually, Node: "b", Duration: ack.MaxGradualDrain + 1},
		"a past end":       quarantine(1, -1),
		"a far end":        quarantine(1, ack.MaxQuarantine+1),
		"no shard's key":   {Kind: ack.ChangeQuarantine, KeyFingerprint: ack.KeyFingerprint{Shard: ack.MaxShards}},
	} {
		t.Run(name, func(t *testing.T) {
			s := serving(t, "a", "b")
			before := s.state
			number, effects, err := s.leaders["a"].turn.ChangePolicy([]ack.Change{c})
			if number != 0 || !errors.Is(err, ack.ErrChange) || len(effects) > 0 {
				t.Errorf("Amend(%+v) = %d, %v, with %d effects", c, number, err, len(effects))
			}
			s.run(time.Second)
			if p := s.state.Policy(); p.ChangedIndex != before.Policy().ChangedIndex {
				t.Errorf("the policy is %+v", p)
			}
		})
	}
}
