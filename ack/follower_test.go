package ack_test

import (
	"testing"

	"shardway/ack"
	"shardway/shardmap"
)

func TestFollowerAcknowledgesAfterDrain(t *testing.T) {
	s, proposal, commit := entries(t)
	at := s.Index() + 1
	open := apply(t, s, at, proposal, ack.OutcomeProposed)
	f := ack.NewFollower("b", ack.DefaultPace().DrainTimeout)
	if f.Acked() != 0 || f.Draining() != 0 || f.Drained(0) {
		t.Error("something to acknowledge before the first state")
	}
	if f.StateApplied(0, ack.NewState()) {
		t.Error("something to drain for without a map")
	}
	// A new boot acknowledges what is committed already (why 13).
	if !f.StateApplied(0, s) || f.Draining() != s.Committed().Epoch() || f.StateApplied(0, s) {
		t.Errorf("draining for %d, want %d, once", f.Draining(), s.Committed().Epoch())
	}
	if !f.Drained(s.Committed().Epoch()) || f.Drained(s.Committed().Epoch()) || f.Acked() != s.Committed().Epoch() {
		t.Errorf("acknowledged %d, want %d, once", f.Acked(), s.Committed().Epoch())
	}
	// b leaves: it must end everything.
	if !f.StateApplied(0, open) || f.State() != open {
		t.Fatal("nothing to drain for a map that takes all")
	}
	for sh := range shardmap.Shard(12) {
		if f.MayRun(sh) {
			t.Errorf("shard %d may run on, the map gives it to %q", sh, open.Last().Owner(sh))
		}
	}
	if f.Acked() != s.Committed().Epoch() || f.Drained(s.Committed().Epoch()) {
		t.Error("acknowledged before it has drained")
	}
	if !f.Drained(open.Last().Epoch()) || f.Acked() != shardmap.Epoch(at) {
		t.Errorf("acknowledged %d, want %d", f.Acked(), at)
	}
	// The commit of what is acknowledged is nothing to drain for.
	if f.StateApplied(0, apply(t, open, at+1, commit, ack.OutcomeCommitted)) {
		t.Error("drains again for the commit")
	}
}

func TestReplacedProposalIsNotAcknowledged(t *testing.T) {
	s, proposal, _ := entries(t)
	at := s.Index() + 1
	first := apply(t, s, at, proposal, ack.OutcomeProposed)
	second := apply(t, first, at+1, proposal, ack.OutcomeProposed)
	f := ack.NewFollower("b", ack.DefaultPace().DrainTimeout)
	f.StateApplied(0, first)
	f.StateApplied(3*ms, second)
	if f.Drained(first.Last().Epoch()) || f.Acked() != 0 {
		t.Error("acknowledged a proposal that was replaced")
	}
	drain := ack.DefaultPace().DrainTimeout
	// b loses the same shards by both proposals, so the time of their requests continues.
	if f.CutDue(drain-ms) || !f.CutDue(drain) {
		t.Error("not cut drain-timeout after the first proposal")
	}
	// What else runs was counted from the second one.
	if !f.CutDue(drain+3*ms) || f.CutDue(drain+4*ms) {
		t.Error("not cut drain-timeout after the second proposal, or twice")
	}
	if !f.Drained(second.Last().Epoch()) || f.CutDue(2*drain) {
		t.Error("the new proposal was not acknowledged, or is drained on")
	}
}
