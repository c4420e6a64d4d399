package ack_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// plan asks the leader of a stage, which is a, and checks that asking changes nothing.
func (s *stage) plan() leader.Plan {
	s.t.Helper()
	before := s.state
	p, err := s.leaders["a"].turn.Plan()
	if err != nil {
		s.t.Fatalf("Plan() = %v", err)
	}
	again, err := s.leaders["a"].turn.Plan()
	if err != nil || !slices.Equal(again.Moves, p.Moves) || s.state != before {
		s.t.Errorf("a plan that is asked for again is another one: %+v, %v, want %+v", again, err, p)
	}
	return p
}

// The plan is empty if the committed map is the wanted one.
func TestPlanOfASettledClusterMovesNothing(t *testing.T) {
	s := serving(t, "a", "b", "c")
	if p := s.plan(); len(p.Moves) > 0 || len(p.Resumed) > 0 || p.Epoch != s.state.Committed().Epoch() {
		t.Errorf("plan = %+v", p)
	}
}

// While moves are paused, a plan shows the moves without the pause, and the map that comes
// once the pause is over is that one.
func TestPlanListsMovesAfterAPause(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.changePolicy("a", pause(time.Hour))
	pinned := shardmap.Shard(0)
	for s.state.Committed().Owner(pinned) == "b" {
		pinned++
	}
	s.changePolicy("a", ack.Change{Kind: ack.ChangePin, Shard: pinned, Node: "b"}, ack.Change{Kind: ack.ChangeWeight, Node: "c", Weight: 3})
	s.run(time.Second)
	p := s.plan()
	if len(p.Moves) > 0 || p.Pause != time.Hour || len(p.Resumed) == 0 {
		t.Fatalf("plan = %+v, want moves that wait for the end of the pause", p)
	}
	whys := map[string]int{}
	for _, m := range p.Resumed {
		whys[m.Reason]++
		if (m.Shard == pinned) != (m.Reason == "pin") || m.Reason != "pin" && m.Reason != "weight" && m.Reason != "spread" {
			t.Errorf("shard %d moves because of %s", m.Shard, m.Reason)
		}
	}
	before := s.state.Committed()
	s.changePolicy("a", ack.Change{Kind: ack.ChangeResume})
	s.until("the moves", func() bool { return !s.state.HasOpenProposal() && s.state.Committed().Epoch() > before.Epoch() })
	var want []shardmap.Move
	for _, m := range p.Resumed {
		want = append(want, m.Move)
	}
	if got := shardmap.Diff(before, s.state.Committed()); !slices.Equal(got, want) {
		t.Errorf("moved %v, planned %v (%v)", got, want, whys)
	}
}

// A round that waits for acknowledgements is a part of the plan, with its cause.
func TestPlanMarksProposedMoves(t *testing.T) {
	s := serving(t, "a", "b", "c")
	c := s.actor("c")
	c.leaving, c.busy = true, true
	s.until("a proposal without c", func() bool { return s.state.HasOpenProposal() })
	p := s.plan()
	if len(p.Moves) != s.state.Committed().ShardCount("c") {
		t.Errorf("%d shards are planned to move, want all %d of c", len(p.Moves), s.state.Committed().ShardCount("c"))
	}
	for _, m := range p.Moves {
		if m.From != "c" || m.Reason != "leave" || !m.Proposed {
			t.Errorf("planned %+v, want a move from c that is proposed, because of leave", m)
		}
	}
}

func TestPlanWaitsForTheBarrier(t *testing.T) {
	s := serving(t, "a", "b")
	if _, err := s.electStuck("b").turn.Plan(); !errors.Is(err, leader.ErrNotYet) {
		t.Errorf("Plan() = %v, want %v", err, leader.ErrNotYet)
	}
}

// Each move has its own cause, even if several changes coincide.
func TestPlanNamesTheCauseOfEachMove(t *testing.T) {
	weigh := func(id shardmap.NodeID, w uint32) ack.Change {
		return ack.Change{Kind: ack.ChangeWeight, Node: id, Weight: w}
	}
	pins := func(zone string, n shardmap.Shard) (all []ack.Change) {
		for s := range n {
			all = append(all, ack.Change{Kind: ack.ChangePin, Shard: s, Zone: zone})
		}
		return all
	}
	for name, c := range map[string]struct {
		before []ack.Change // and its moves
		asked  []ack.Change
		joins  bool
		pinned shardmap.Shard // those below move for it
		why    string         // of all the others
		paused string         // and of these in a pause, when the members' weights count already
	}{
		"a weight is raised":         {asked: []ack.Change{weigh("c", 3)}, why: "weight", paused: "spread"},
		"a weight is taken back":     {before: []ack.Change{weigh("c", 3)}, asked: []ack.Change{weigh("c", 0)}, why: "weight", paused: "spread"},
		"a node joins":               {joins: true, why: "join", paused: "join"},
		"one that has joined weighs": {asked: []ack.Change{weigh("d", 3)}, joins: true, why: "join", paused: "join"},
		"pins to a zone":             {asked: pins("z", 12), pinned: 12},
		"pins to where nobody is":    {asked: append(pins("nowhere", 12), weigh("c", 3)), why: "weight", paused: "spread"},
	} {
		plan := func(t *testing.T, paused bool) []leader.PlannedMove {
			t.Helper()
			s := newStage(t, "a", "b", "c")
			s.actor("c").zone = "z"
			s.start("a", "b", "c")
			s.elect("a")
			s.run(600 * time.Millisecond)
			if len(c.before) > 0 {
				s.changePolicy("a", c.before...)
				s.until("the moves of before", func() bool { return !s.state.HasOpenProposal() && s.state.Committed().ShardCount("c") > 4 })
			}
			if paused {
				s.changePolicy("a", pause(time.Hour))
			}
			for _, a := range s.actors {
				a.busy = !paused
			}
			if len(c.asked) > 0 {
				s.changePolicy("a", c.asked...)
			}
			if c.joins {
				s.start("d")
				s.actor("d").follows, s.actor("d").term = "a", s.term
			}
			if paused {
				s.run(2 * time.Second)
				return s.plan().Resumed
			}
			s.until("a proposal", func() bool { return s.state.HasOpenProposal() })
			s.run(stageTick) // the leader has applied it
			return s.plan().Moves
		}
		t.Run(name, func(t *testing.T) {
			for _, paused := range []bool{false, true} {
				moves, why := plan(t, paused), c.why
				if paused {
					why = c.paused
				}
				if len(moves) == 0 {
					t.Errorf("paused %v: nothing is planned", paused)
				}
				for _, m := range moves {
					want := why
					if m.Shard < c.pinned {
						want = "pin"
					}
					if m.Reason != want || m.Proposed == paused {
						t.Errorf("paused %v: planned %+v, want because of %s", paused, m, want)
					}
				}
			}
		})
	}
}

// A shard that leaves a node with a gradual drain has the reason drain. Another move that the
// open round does not contain is not marked as proposed.
func TestPlanListsDrainsBeforeTheProposal(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.actor("c").busy = true
	s.changePolicy("a", ack.Change{Kind: ack.ChangeDrainGradually, Node: "c", Duration: time.Hour})
	was := s.state.Committed()
	var idle []shardmap.Shard
	for sh := range shardmap.Shard(12) {
		if was.Owner(sh) == "c" {
			idle = append(idle, sh)
		}
	}
	s.step(s.leaders["a"], leader.IdleShards{Node: "c", MapEpoch: was.Epoch(), Shards: idle[:1]})
	s.until("a round of what is idle", func() bool { return s.state.HasOpenProposal() })
	s.changePolicy("a", ack.Change{Kind: ack.ChangePin, Shard: idle[1], Node: "b"})
	for _, m := range s.plan().Moves {
		if first := m.Shard == idle[0]; m.From != "c" || m.Reason != "drain" || m.Proposed != first {
			t.Errorf("planned %+v, want a drain of c, proposed: %v", m, first)
		}
	}
}
