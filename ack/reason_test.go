package ack_test

import (
	"testing"

	"shardway/ack"
)

// The reason of a proposal outlives its leader, which is often the cause: the next leader
// proposes the same map for the same reason.
func TestReasonOfAnOpenProposalIsKept(t *testing.T) {
	s := serving(t, "a", "b", "c")
	c := s.actor("c")
	c.leaving, c.busy = true, true
	s.until("a proposal without c", func() bool { return s.state.HasOpenProposal() })
	if got := s.state.ProposalReason(); got != "leave" {
		t.Errorf("proposed because %q, want leave", got)
	}
	b, err := s.state.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ack.DecodeState(b); err != nil || again.ProposalReason() != "leave" {
		t.Errorf("after a snapshot: %q, %v", again.ProposalReason(), err)
	}
	first := s.state.Proposed().Epoch()
	s.elect("b")
	s.until("b proposes", func() bool { return s.state.Proposed().Epoch() > first })
	c.busy = false
	s.until("committed", func() bool { return !s.state.HasOpenProposal() })
	if got := s.state.ProposalReason(); got != "leave" {
		t.Errorf("committed because %q, want leave", got)
	}
}
