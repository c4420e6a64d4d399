package ack_test

import (
	"strings"
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// A leader submits a commit and is paused. Other leaders grant leases for shards that it
// considered free. Then it leads again, and its commit enters the log, for the map that is
// still the last proposal.
func TestCommitOfAnotherTermIsVoid(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.actor("c").leaving = true
	s.actor("c").held = true
	s.until("a proposal without c", func() bool { return s.state.HasOpenProposal() })
	s.stuck = true
	s.crash("c")
	s.until("a commit on its way", func() bool { return len(s.waiting) > 0 })
	late := s.waiting[0]
	if got := s.append(late.term+2, late.entry); got != ack.OutcomeIgnored {
		t.Errorf("the commit of term %d in term %d: outcome %d, want ignored", late.term, late.term+2, got)
	}
	if got := s.append(late.term, late.entry); got != ack.OutcomeCommitted {
		t.Errorf("the same commit in its term: outcome %d, want committed", got)
	}
}

func TestProposalOfAnotherTermIsVoid(t *testing.T) {
	s := serving(t, "a", "b")
	s.stuck = true
	s.crash("b")
	s.until("a proposal on its way", func() bool { return len(s.waiting) > 0 })
	late := s.waiting[0]
	if got := s.append(late.term+2, late.entry); got != ack.OutcomeIgnored {
		t.Errorf("the proposal of term %d in term %d: outcome %d, want ignored", late.term, late.term+2, got)
	}
}

// While a commit is being submitted, no other entry may end the rule that a lease requires an
// acknowledgement of its map, for example an entry that is ignored.
func TestIgnoredEntryDoesNotEndACommitOnItsWay(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.stuck = true
	s.actor("c").leaving = true
	s.until("a proposal on its way", func() bool { return len(s.waiting) > 0 })
	stale := s.waiting[0]
	s.flush()
	s.actor("c").held, s.actor("c").mute = true, true
	s.until("a commit on its way", func() bool { return len(s.waiting) > 0 })
	s.append(stale.term+1, stale.entry) // ignored
	c := s.actor("c")
	c.mute = false
	s.run(time.Second)
	if s.serves("c") || c.leased {
		t.Errorf("c has a lease while the commit that takes its shards is on its way:\n%s", s)
	}
	s.flush()
	s.run(time.Second)
	if got := s.state.Committed().ShardCount("c"); got != 0 {
		t.Errorf("c owns %d shards, want 0:\n%s", got, s)
	}
}

// A node that leaves or whose app is unhealthy is in no proposal, so it is never dropped for a
// missed acknowledgement. If its log hangs, the round must not wait forever: the node loses
// its lease, and then its shards.
func TestLeavingNodeThatNeverAcknowledgesIsNotWaitedFor(t *testing.T) {
	for _, why := range []string{"leaving", "sick"} {
		s := serving(t, "a", "b", "c")
		c := s.actor("c")
		c.held = true
		c.leaving, c.unhealthy = why == "leaving", why == "sick"
		s.until(why+" c owns nothing", func() bool { return !s.state.HasOpenProposal() && s.state.Committed().ShardCount("c") == 0 })
		if c.leased {
			t.Errorf("%s c still has a lease:\n%s", why, s)
		}
		c.held, c.leaving, c.unhealthy = false, false, false
		s.until(why+" c is back", func() bool { return s.serves("c") })
	}
}

// A leadership transfer may fail: with one voter there is no other server.
func TestLeaderThatCannotStepDownGoesOn(t *testing.T) {
	s := serving(t, "a")
	a := s.actor("a")
	s.start("b")
	b := s.actor("b")
	b.follows, b.term = "a", s.term
	s.stuck = true
	s.until("a proposal on its way", func() bool { return len(s.waiting) > 0 })
	a.held, b.held, s.stuck = true, true, false
	s.flush()
	s.until("a steps down", func() bool { return s.leaders["a"].steps > 0 })
	steps := s.leaders["a"].steps
	s.run(time.Second)
	if got := s.leaders["a"].steps; got != steps {
		t.Errorf("stepped down %d times within a second, want once per dead-after", got-steps+1)
	}
	s.until("it tries again", func() bool { return s.leaders["a"].steps > steps })
	a.held, b.held = false, false
	s.until("both serve", func() bool { return s.serves("a") && s.serves("b") })
}

func TestFailedSubmitIsTriedAgainAfterAPause(t *testing.T) {
	s := serving(t, "a", "b")
	b := s.actor("b")
	b.leaving, b.busy = true, true
	s.until("a proposal", func() bool { return s.state.HasOpenProposal() })
	s.stuck, b.busy = true, false
	s.until("a commit on its way", func() bool { return len(s.waiting) > 0 })
	s.waiting = nil
	s.step(s.leaders["a"], leader.SubmitFailed{})
	if len(s.waiting) > 0 {
		t.Error("tried again at once: that may spin")
	}
	s.until("tried again", func() bool { return len(s.waiting) > 0 })
	s.stuck = false
	s.flush()
	s.until("b is out", func() bool { return s.state.Committed().ShardCount("b") == 0 })
}

// A leader that was paused, or ran on a busy machine, has handled no heartbeat in that time,
// including its own. That says nothing about the other nodes.
func TestPausedLeaderDropsNoNode(t *testing.T) {
	s := serving(t, "a", "b", "c")
	epoch := s.state.Proposed().Epoch()
	s.now += 900 * time.Millisecond
	s.step(s.leaders["a"], leader.Tick{})
	s.actor("b").mute = true
	s.run(60 * time.Millisecond)
	s.actor("b").mute = false
	s.run(2 * time.Second)
	if got := s.state.Proposed().Epoch(); got != epoch {
		t.Errorf("a pause of the leader made a round:\n%s", s)
	}
}

func TestPauseDoesNotCountAgainstAcknowledgements(t *testing.T) {
	s := serving(t, "a", "b", "c")
	for _, id := range []shardmap.NodeID{"b", "c"} {
		s.actor(id).busy = true
	}
	s.start("d")
	s.actor("d").follows, s.actor("d").term = "a", s.term
	s.until("a proposal", func() bool { return s.state.HasOpenProposal() })
	epoch := s.state.Proposed().Epoch()
	s.run(100 * time.Millisecond)
	s.now += 8 * time.Second
	s.step(s.leaders["a"], leader.Tick{})
	s.run(time.Second)
	if got := s.state.Committed().Epoch(); got != epoch || s.leaders["a"].steps > 0 {
		t.Errorf("committed %d, want %d:\n%s", got, epoch, s)
	}
}

// The removal arrives after the node has returned. The node has a lease by then, must keep its
// shards, and may get more later.
func TestRemovalOfLiveNodeIsIgnored(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.step(s.leaders["a"], leader.NodeRemoved{Node: "c"})
	s.run(time.Second)
	if !s.serves("c") {
		t.Errorf("c was heard and lost its shards:\n%s", s)
	}
	s.crash("c")
	s.run(600 * time.Millisecond)
	s.step(s.leaders["a"], leader.NodeRemoved{Node: "c"})
	s.run(50 * time.Millisecond)
	if s.state.Committed().IsMember("c") {
		t.Errorf("c is gone and an operator said so, but it has its shards:\n%s", s)
	}
	s.start("c")
	s.actor("c").follows, s.actor("c").term = "a", s.term
	s.until("c is back under its next boot", func() bool { return s.serves("c") })
}

// A delayed heartbeat of a crashed node voids the crash evidence, and many heartbeats came
// before it. None of them makes a dropped node eligible again.
func TestHeartbeatsBeforeADropDoNotBringANodeBack(t *testing.T) {
	s := serving(t, "a", "b", "c")
	c := s.actor("c")
	late := s.beat(c)
	s.crash("c")
	s.step(s.leaders["a"], leader.CrashEvidence{Node: "c", Boot: c.boot, Nonce: c.nonce, RedialStartedAt: s.now})
	s.run(40 * time.Millisecond)
	if !s.state.IsDropped("c") {
		t.Fatalf("c was not dropped:\n%s", s)
	}
	s.step(s.leaders["a"], leader.HeartbeatReceived{Heartbeat: late, From: "c:1"})
	s.run(3 * time.Second)
	if strings.Contains(s.String(), "join") {
		t.Errorf("c was proposed again:\n%s", s)
	}
}

// If no node may own shards while a proposal is open, that proposal remains: the committed map
// names a dead node, which must not be proposed again.
func TestLastMapRemainsWithoutMembers(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.crash("c")
	s.step(s.leaders["a"], leader.CrashEvidence{Node: "c", Boot: 1, Nonce: s.actor("c").nonce, RedialStartedAt: s.now})
	s.run(40 * time.Millisecond)
	s.actor("a").unhealthy, s.actor("b").leaving = true, true
	s.run(3 * time.Second)
	if s.state.Committed().IsMember("c") || s.state.Proposed().IsMember("c") || s.state.HasOpenProposal() {
		t.Errorf("committed %s, last %s:\n%s", spread(s.state.Committed()), spread(s.state.Proposed()), s)
	}
}

// A request for a new map that would change nothing has no effect, also not on a later change.
func TestRequestedRebalanceProposesNoEqualMap(t *testing.T) {
	s := serving(t, "a", "b", "c")
	before := s.state.Committed()
	s.step(s.leaders["a"], leader.MapRequested{})
	s.run(time.Second)
	if after := s.state.Committed(); after.Epoch() != before.Epoch() || s.state.HasOpenProposal() {
		t.Errorf("epoch %d after epoch %d, want no new map:\n%s", after.Epoch(), before.Epoch(), s)
	}
}

// The leader batches nodes that join. A request proposes the wanted map at once, and only one map.
func TestRequestedRebalanceDoesNotWaitForFurtherNodes(t *testing.T) {
	took := func(isRequested bool) time.Duration {
		s := serving(t, "a", "b")
		s.start("c")
		s.actor("c").follows, s.actor("c").term = "a", s.term
		wantsMap := func() bool {
			plan, err := s.leaders["a"].turn.Plan()
			return err == nil && len(plan.Moves) > 0
		}
		s.until("a map is wanted", wantsMap)
		began, before := s.now, s.state.Proposed().Epoch()
		if isRequested {
			s.step(s.leaders["a"], leader.MapRequested{})
		}
		s.until("it is proposed", func() bool { return s.state.Proposed().Epoch() > before })
		return s.now - began
	}
	if requested, batched := took(true), took(false); requested > 50*time.Millisecond || batched < 4*requested {
		t.Errorf("proposed after %v, without the request after %v", requested, batched)
	}
}

// A statement that arrives late may be about an earlier process, and crash evidence may be wrong. Even
// together they free no shards before the lease of the node has certainly ended.
func TestRemovalFreesNoShardsDuringALease(t *testing.T) {
	s := servingUnder(t, ack.TakeoverLease, "a", "b", "c")
	c := s.actor("c")
	c.mute = true // no heartbeat refutes the evidence
	s.step(s.leaders["a"], leader.CrashEvidence{Node: "c", Boot: c.boot, Nonce: c.nonce, RedialStartedAt: s.now})
	s.step(s.leaders["a"], leader.NodeRemoved{Node: "c"})
	for c.machine.LeaseRemaining(s.now) > 0 {
		if !s.state.Committed().IsMember("c") {
			t.Fatalf("the shards of c were taken while it has a lease:\n%s", s)
		}
		s.run(5 * time.Millisecond)
	}
	s.run(100 * time.Millisecond)
	if s.state.Committed().IsMember("c") {
		t.Errorf("the lease of c has ended, but it has its shards:\n%s", s)
	}
}

// The statement of an operator may be wrong: a removed node that sends heartbeats again is
// treated like any other dropped node.
func TestHeartbeatVoidsRemoval(t *testing.T) {
	s := serving(t, "a", "b", "c")
	c := s.actor("c")
	c.mute = true
	s.run(600 * time.Millisecond)
	s.step(s.leaders["a"], leader.NodeRemoved{Node: "c"})
	s.until("c's shards are taken", func() bool { return s.state.Committed().ShardCount("c") == 0 })
	c.mute = false
	s.until("c serves again, in the same boot", func() bool { return s.serves("c") })
}

// A machine that always runs the leader too seldom must still detect silent nodes.
func TestSlowLeaderDropsSilentNodes(t *testing.T) {
	s := serving(t, "a", "b")
	s.crash("b")
	for range 30 {
		s.now += 110 * time.Millisecond
		s.step(s.leaders["a"], leader.Tick{})
		s.act(s.actor("a"))
	}
	if s.state.Proposed().IsMember("b") {
		t.Errorf("b has been gone for 3 s and is not dropped:\n%s", s)
	}
}
