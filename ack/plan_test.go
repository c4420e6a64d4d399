package ack_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// plan asks the leader of a stage, and checks that asking changes nothing.
func (s *stage) plan(leader shardmap.NodeID) ack.Plan {
	s.t.Helper()
	before := s.state
	p, err := s.leaders[leader].turn.Plan()
	if err != nil {
		s.t.Fatalf("Plan() = %v", err)
	}
	again, err := s.leaders[leader].turn.Plan()
	if err != nil || !slices.Equal(again.Moves, p.Moves) || s.state != before {
		s.t.Errorf("a plan that is asked for again is another one: %+v, %v, want %+v", again, err, p)
	}
	return p
}

// Nothing has to be asked for: the map that is committed is the one that ought to be.
func TestPlanOfASettledClusterMovesNothing(t *testing.T) {
	s := serving(t, "a", "b", "c")
	if p := s.plan("a"); len(p.Moves) > 0 || len(p.Resumed) > 0 || p.Epoch != s.state.Committed().Epoch() {
		t.Errorf("plan = %+v", p)
	}
}

// While moves are paused a plan says what would move without that, and the map that comes
// once the pause is over is that one.
func TestPlanTellsWhatTheEndOfAPauseMoves(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.amend("a", pause(time.Hour))
	pinned := shardmap.Shard(0)
	for s.state.Committed().Owner(pinned) == "b" {
		pinned++
	}
	s.amend("a", ack.Change{Kind: ack.ChangePin, Shard: pinned, Node: "b"}, ack.Change{Kind: ack.ChangeWeight, Node: "c", Weight: 3})
	s.run(time.Second)
	p := s.plan("a")
	if len(p.Moves) > 0 || p.Pause != time.Hour || len(p.Resumed) == 0 {
		t.Fatalf("plan = %+v, want moves that wait for the end of the pause", p)
	}
	whys := map[string]int{}
	for _, m := range p.Resumed {
		whys[m.Why]++
		if (m.Shard == pinned) != (m.Why == "pin") || m.Why != "pin" && m.Why != "weight" && m.Why != "spread" {
			t.Errorf("shard %d moves because of %s", m.Shard, m.Why)
		}
	}
	before := s.state.Committed()
	s.amend("a", ack.Change{Kind: ack.ChangeResume})
	s.until("the moves", func() bool { return !s.state.Open() && s.state.Committed().Epoch() > before.Epoch() })
	var want []shardmap.Move
	for _, m := range p.Resumed {
		want = append(want, m.Move)
	}
	if got := shardmap.Diff(before, s.state.Committed()); !slices.Equal(got, want) {
		t.Errorf("moved %v, planned %v (%v)", got, want, whys)
	}
}

// A round that waits for acknowledgements is a part of the plan, with its cause.
func TestPlanTellsWhatIsProposed(t *testing.T) {
	s := serving(t, "a", "b", "c")
	c := s.actor("c")
	c.leaving, c.busy = true, true
	s.until("a proposal without c", func() bool { return s.state.Open() })
	p := s.plan("a")
	if len(p.Moves) != s.state.Committed().Count("c") {
		t.Errorf("%d shards are planned to move, want all %d of c", len(p.Moves), s.state.Committed().Count("c"))
	}
	for _, m := range p.Moves {
		if m.From != "c" || m.Why != "leave" || !m.Proposed {
			t.Errorf("planned %+v, want a move from c that is proposed, because of leave", m)
		}
	}
}

func TestPlanWaitsForTheBarrier(t *testing.T) {
	s := serving(t, "a", "b")
	if _, err := s.electStuck("b").turn.Plan(); !errors.Is(err, ack.ErrNotYet) {
		t.Errorf("Plan() = %v, want %v", err, ack.ErrNotYet)
	}
}
