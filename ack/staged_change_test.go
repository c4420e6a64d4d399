package ack_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// owned returns the shards of a node in the committed map.
func (s *stage) owned(id shardmap.NodeID) []shardmap.Shard {
	return slices.Collect(s.state.Committed().Shards(id))
}

// runs starts a request for a shard of a node.
func (s *stage) runs(id shardmap.NodeID, shard shardmap.Shard) {
	a := s.actor(id)
	if a.runs == nil {
		a.runs = map[shardmap.Shard]bool{}
	}
	a.runs[shard] = true
}

// planned are changes that take shards from live nodes.
var planned = map[string]struct {
	// prepare comes before the change; nil: nothing does.
	prepare func(s *stage)
	begin   func(s *stage)
	// from gives up shards, left is what it has in the end.
	from shardmap.NodeID
	left int
}{
	"drain": {nil, func(s *stage) { s.changePolicy("a", drain("b")) }, "b", 0},
	"leave": {nil, func(s *stage) { s.actor("b").leaving = true }, "b", 0},
	"join":  {nil, func(s *stage) { s.joins("d") }, "b", 3},
	"weight": {nil, func(s *stage) {
		s.actor("b").weight, s.actor("a").weight, s.actor("c").weight = 1, 2, 3
	}, "b", 2},
	"setting": {nil, func(s *stage) {
		s.changePolicy("a", ack.Change{Kind: ack.ChangeWeight, Node: "b", Weight: 1}, ack.Change{Kind: ack.ChangeWeight, Node: "a", Weight: 2}, ack.Change{Kind: ack.ChangeWeight, Node: "c", Weight: 3})
	}, "b", 2},
	"pin":            {func(s *stage) { s.pins(s.owned("a"), "a") }, func(s *stage) { s.pins(s.owned("b"), "a") }, "b", 2},
	"end of a drain": {func(s *stage) { s.changePolicy("a", drain("c")) }, func(s *stage) { s.changePolicy("a", uncordon("c")) }, "b", 4},
	"end of a cordon": {func(s *stage) {
		s.changePolicy("a", ack.Change{Kind: ack.ChangeCordon, Node: "d"})
		s.joins("d")
	}, func(s *stage) { s.changePolicy("a", uncordon("d")) }, "b", 3},
	"rebalance after a pause": {func(s *stage) {
		s.changePolicy("a", pause(time.Hour))
		s.joins("d")
	}, func(s *stage) { s.changePolicy("a", ack.Change{Kind: ack.ChangeResume}) }, "b", 3},
}

// joins starts a node that follows the leader.
func (s *stage) joins(id shardmap.NodeID) {
	s.start(id)
	s.actor(id).follows, s.actor(id).term = "a", s.term
}

// pins pins shards to a node.
func (s *stage) pins(shards []shardmap.Shard, to shardmap.NodeID) {
	var changes []ack.Change
	for _, x := range shards {
		changes = append(changes, ack.Change{Kind: ack.ChangePin, Shard: x, Node: to})
	}
	s.changePolicy("a", changes...)
}

// beforePlanned returns a stage on which a planned change can begin.
func beforePlanned(t *testing.T, change string) *stage {
	t.Helper()
	s := serving(t, "a", "b", "c")
	if prepare := planned[change].prepare; prepare != nil {
		prepare(s)
		s.run(2 * time.Second)
		s.lines = nil
	}
	return s
}

// moving returns the shards that a planned change takes from a node, found by a trial.
func moving(t *testing.T, change string) []shardmap.Shard {
	t.Helper()
	s := beforePlanned(t, change)
	c := planned[change]
	before := s.owned(c.from)
	c.begin(s)
	s.until("the change is over", func() bool { return s.state.Committed().ShardCount(c.from) == c.left && !s.state.HasOpenProposal() })
	return slices.DeleteFunc(before, func(x shardmap.Shard) bool { return s.state.Committed().Owner(x) == c.from })
}

// A planned change moves idle shards within tens of milliseconds, though a request runs for
// another shard. That one follows once the request has ended, or at drain-timeout.
func TestPlannedChangeMovesIdleShardsFirst(t *testing.T) {
	for name, c := range planned {
		for _, ends := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/ends=%v", name, ends), func(t *testing.T) {
				moves := moving(t, name)
				s := beforePlanned(t, name)
				busy := moves[0]
				s.runs(c.from, busy)
				epoch := s.state.Proposed().Epoch()
				c.begin(s)
				began := s.now
				s.until("a proposal", func() bool { return s.state.Proposed().Epoch() != epoch })
				proposed := s.now
				s.until("idle shards have moved", func() bool { return !s.state.HasOpenProposal() })
				if took := s.now - proposed; took > 50*time.Millisecond {
					t.Errorf("the first map took %v", took)
				}
				for _, x := range moves[1:] {
					if s.state.Committed().Owner(x) == c.from {
						t.Errorf("idle shard %d stays with %s:\n%s", x, c.from, s)
					}
				}
				s.run(2 * time.Second)
				if got := s.state.Committed().Owner(busy); got != c.from || !s.actor(c.from).runs[busy] {
					t.Errorf("shard %d went to %s, its request runs: %v:\n%s", busy, got, s.actor(c.from).runs[busy], s)
				}
				most := time.Second
				if ended := s.now; ends {
					delete(s.actor(c.from).runs, busy)
					began = ended
				} else {
					most += 2 * s.pace.DrainTimeout // until the hold, and for the request
				}
				s.until("the last shard has moved", func() bool { return s.state.Committed().ShardCount(c.from) == c.left && !s.state.HasOpenProposal() })
				if took := s.now - began; took > most {
					t.Errorf("it moved after %v, want up to %v", took, most)
				}
				if pin := s.state.Policy().Pins[busy]; pin.Node != "" && s.state.Committed().Owner(busy) != pin.Node {
					t.Errorf("shard %d is pinned to %s and went to %s", busy, pin.Node, s.state.Committed().Owner(busy))
				}
			})
		}
	}
}

// A shard that stays busy moves at drain-timeout in one last map, and its request has as
// long again to end. The number of maps is bounded, however shards become idle.
func TestStagedChangeEndsAtDrainTimeout(t *testing.T) {
	s := serving(t, "a", "b", "c")
	for _, x := range s.owned("b") {
		s.runs("b", x)
	}
	s.changePolicy("a", ack.Change{Kind: ack.ChangeDrain, Node: "b"})
	began, last := s.now, s.owned("b")[0]
	maps, epoch := 0, s.state.Committed().Epoch()
	s.until("b owns nothing", func() bool {
		if e := s.state.Committed().Epoch(); e != epoch {
			maps, epoch = maps+1, e
		}
		for x := range s.actor("b").runs { // one ends now and then
			if x != last && int(s.now/(700*time.Millisecond)) > int(x) {
				delete(s.actor("b").runs, x)
			}
		}
		return s.state.Committed().ShardCount("b") == 0 && !s.state.HasOpenProposal()
	})
	if took := s.now - began; took < 2*s.pace.DrainTimeout || took > 2*s.pace.DrainTimeout+500*time.Millisecond {
		t.Errorf("it took %v, want twice %v:\n%s", took, s.pace.DrainTimeout, s)
	}
	if maps > 8 {
		t.Errorf("%d maps", maps)
	}
}

// A target that leaves the map again and again does not delay the move of a busy shard, as long as
// another node can own the shard.
func TestFlappingTargetDoesNotDelayAStagedMove(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.joins("d")
	s.run(2 * time.Second)
	s.runs("b", s.owned("b")[0])
	s.changePolicy("a", drain("b"))
	began := s.now
	for flips := 0; s.state.Proposed().ShardCount("b") > 0; flips++ {
		if flips > 100 {
			t.Fatalf("the leader never takes %v:\n%s", s.owned("b"), s)
		}
		s.actor("d").unhealthy = !s.actor("d").unhealthy
		s.run(700 * time.Millisecond)
	}
	if took := s.now - began; took < s.pace.DrainTimeout || took > s.pace.DrainTimeout+2*time.Second {
		t.Errorf("the leader takes the busy shard after %v, want %v:\n%s", took, s.pace.DrainTimeout, s)
	}
	// Proposals that replace each other give the request no more time.
	for flips := 0; s.state.Committed().ShardCount("b") > 0; flips++ {
		if flips > 100 {
			t.Fatalf("the round that takes %v stays open:\n%s", s.owned("b"), s)
		}
		s.actor("d").unhealthy = !s.actor("d").unhealthy
		s.run(700 * time.Millisecond)
	}
	if took := s.now - began; took > 2*s.pace.DrainTimeout+2*time.Second {
		t.Errorf("the busy shard moves after %v, want twice %v:\n%s", took, s.pace.DrainTimeout, s)
	}
}

// The shards of a node that never answers queries move in one map after a short wait.
func TestSilentOwnerHasAllShardsMovedAtOnce(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.actor("b").reticent = true
	s.runs("b", s.owned("b")[0])
	s.changePolicy("a", ack.Change{Kind: ack.ChangeDrain, Node: "b"})
	began := s.now
	s.until("a proposal", func() bool { return s.state.Proposed().ShardCount("b") == 0 })
	if took := s.now - began; took > 200*time.Millisecond {
		t.Errorf("after %v %s:\n%s", took, spread(s.state.Proposed()), s)
	}
}

// A crash during a staged change moves the shards of the dead node at once, and no busy shard
// of another node.
func TestCrashDoesNotWaitForAStage(t *testing.T) {
	s := serving(t, "a", "b", "c", "d")
	busy := s.owned("b")[0]
	s.runs("b", busy)
	s.changePolicy("a", ack.Change{Kind: ack.ChangeDrain, Node: "b"})
	s.until("idle shards have moved", func() bool { return s.state.Committed().ShardCount("b") == 1 && !s.state.HasOpenProposal() })
	s.crash("c")
	crashed := s.now
	s.until("c owns nothing", func() bool { return s.state.Committed().ShardCount("c") == 0 && !s.state.HasOpenProposal() })
	if took := s.now - crashed; took > s.timing.DeadAfter+200*time.Millisecond {
		t.Errorf("it took %v:\n%s", took, s)
	}
	if got := s.state.Committed().Owner(busy); got != "b" {
		t.Errorf("shard %d is busy and went to %q:\n%s", busy, got, s)
	}
}

// If the owner of busy shards crashes, its shards are lost and no longer deferred.
func TestCrashOfAStagedOwnerEndsTheWait(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.runs("b", s.owned("b")[0])
	s.actor("b").leaving = true
	s.until("idle shards have moved", func() bool { return s.state.Committed().ShardCount("b") == 1 && !s.state.HasOpenProposal() })
	s.crash("b")
	crashed := s.now
	s.until("b owns nothing", func() bool { return s.state.Committed().ShardCount("b") == 0 && !s.state.HasOpenProposal() })
	if took := s.now - crashed; took > s.timing.DeadAfter+200*time.Millisecond {
		t.Errorf("it took %v:\n%s", took, s)
	}
}

// The next leader continues the change: busy shards stay, and idle ones move.
func TestNextLeaderGoesOnWithAStagedChange(t *testing.T) {
	for _, open := range []bool{false, true} {
		s := serving(t, "a", "b", "c")
		busy := s.owned("b")[0]
		s.runs("b", busy)
		s.changePolicy("a", ack.Change{Kind: ack.ChangeDrain, Node: "b"})
		s.actor("c").held = open
		s.until("a proposal", func() bool { return s.state.Proposed().ShardCount("b") == 1 })
		if !open {
			s.until("idle shards have moved", func() bool { return s.state.Committed().ShardCount("b") == 1 && !s.state.HasOpenProposal() })
		}
		s.actor("c").held = false
		s.elect("c")
		s.run(2 * time.Second)
		if got := s.owned("b"); !slices.Equal(got, []shardmap.Shard{busy}) || s.state.HasOpenProposal() {
			t.Errorf("open %v: b owns %v, want %d:\n%s", open, got, busy, s)
		}
		s.until("b owns nothing", func() bool { return s.state.Committed().ShardCount("b") == 0 && !s.state.HasOpenProposal() })
	}
}

// With rebalance mode stop-the-world each map pauses everything, so there is only one.
func TestClusterPauseIsNotStaged(t *testing.T) {
	s := newStage(t, "a", "b", "c")
	s.timing.RebalanceMode = ack.RebalanceStopTheWorld
	s.start("a", "b", "c")
	s.elect("a")
	s.run(600 * time.Millisecond)
	s.runs("b", s.owned("b")[0])
	s.actor("b").leaving = true
	s.until("a proposal", func() bool { return s.state.HasOpenProposal() })
	if s.state.Proposed().IsMember("b") {
		t.Errorf("a map for all: %s", spread(s.state.Proposed()))
	}
}

// When every node is drained or leaves, the last map stays, also in the middle of a change.
func TestStagedChangeStopsWithoutMembers(t *testing.T) {
	s := serving(t, "a", "b", "c")
	busy := s.owned("b")[0]
	s.runs("b", busy)
	s.actor("b").leaving = true
	s.until("idle shards have moved", func() bool { return s.state.Committed().ShardCount("b") == 1 && !s.state.HasOpenProposal() })
	s.actor("a").leaving, s.actor("c").leaving = true, true
	s.run(12 * time.Second)
	if got := s.owned("b"); !slices.Equal(got, []shardmap.Shard{busy}) || s.state.HasOpenProposal() {
		t.Errorf("b owns %v, want %d:\n%s", got, busy, s)
	}
}

// The end of a gradual drain does not wait a second time for busy shards.
func TestEndOfAGradualDrainIsNotStaged(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.runs("b", s.owned("b")[0])
	s.changePolicy("a", ack.Change{Kind: ack.ChangeDrainGradually, Node: "b", Duration: time.Second})
	s.until("b is drained", func() bool { return s.state.Policy().Drained["b"] })
	drained := s.now
	s.until("a proposal without b", func() bool { return s.state.HasOpenProposal() && !s.state.Proposed().IsMember("b") })
	if took := s.now - drained; took > 100*time.Millisecond {
		t.Errorf("proposed after %v:\n%s", took, s)
	}
}

// A long request begins just after its owner has reported the shard as idle. The round
// continues without that shard.
func TestRoundGoesOnWithoutAShardThatHoldsItUp(t *testing.T) {
	s := serving(t, "a", "b", "c")
	late := s.owned("b")[0]
	s.actor("b").begins = []shardmap.Shard{late}
	s.changePolicy("a", ack.Change{Kind: ack.ChangeDrain, Node: "b"})
	s.until("a proposal takes all shards", func() bool { return s.state.HasOpenProposal() && s.state.Proposed().ShardCount("b") == 0 })
	proposed := s.now
	s.until("idle shards have moved", func() bool { return !s.state.HasOpenProposal() })
	if took := s.now - proposed; took > 150*time.Millisecond {
		t.Errorf("they moved after %v:\n%s", took, s)
	}
	if got := s.owned("b"); !slices.Equal(got, []shardmap.Shard{late}) || !s.actor("b").runs[late] {
		t.Errorf("b owns %v, want %d; its request runs: %v:\n%s", got, late, s.actor("b").runs[late], s)
	}
	delete(s.actor("b").runs, late)
	s.until("the last shard has moved", func() bool { return s.state.Committed().ShardCount("b") == 0 && !s.state.HasOpenProposal() })
}

// Requests that end one after the other cost up to ten maps that leave busy shards, each later
// than the one before. After these, the shards wait for the last request, and a request that
// begins while the map is proposed costs no further map.
func TestStagesComeLaterEachTimeAndAreBounded(t *testing.T) {
	s := newStage(t, "a", "b")
	s.pace.DrainTimeout = 2 * time.Hour
	s.start("a", "b")
	s.elect("a")
	s.run(600 * time.Millisecond)
	s.changePolicy("a", drain("a"))
	s.until("b owns all shards", func() bool { return s.state.Committed().ShardCount("b") == 12 && !s.state.HasOpenProposal() })
	busy := s.owned("b")
	for _, x := range busy {
		s.runs("b", x)
	}
	s.changePolicy("a", uncordon("a"), drain("b"))
	s.run(time.Second)
	owns := func(n int) func() bool {
		return func() bool { return s.state.Committed().ShardCount("b") == n && !s.state.HasOpenProposal() }
	}
	pause := time.Duration(0) // before the next map
	for i := range 10 {
		delete(s.actor("b").runs, busy[i])
		s.run(pause * 9 / 10)
		if !owns(12 - i)() {
			t.Errorf("map %d comes less than %v after the one before", i+1, pause)
		}
		s.until("a shard without a request has moved", owns(11-i))
		pause = max(2*pause, 250*time.Millisecond)
	}
	delete(s.actor("b").runs, busy[10])
	s.run(10 * time.Minute)
	if !owns(2)() {
		t.Fatalf("b owns %v, want two shards after ten maps:\n%s", s.owned("b"), s)
	}
	s.actor("b").begins = []shardmap.Shard{busy[10]}
	delete(s.actor("b").runs, busy[11])
	s.until("both shards are proposed", func() bool { return s.state.HasOpenProposal() && s.state.Proposed().ShardCount("b") == 0 })
	s.run(time.Second)
	if !s.state.HasOpenProposal() || s.state.Proposed().ShardCount("b") != 0 {
		t.Fatalf("another map leaves b the shard of the request that began:\n%s", s)
	}
	delete(s.actor("b").runs, busy[10])
	s.until("nothing is left at b", owns(0))
}

// However long drain-timeout is, the last shard moves soon after its request has ended.
func TestLongDrainEndsWithItsLastRequest(t *testing.T) {
	s := newStage(t, "a", "b", "c")
	s.pace.DrainTimeout = 2 * time.Hour
	s.start("a", "b", "c")
	s.elect("a")
	s.run(600 * time.Millisecond)
	busy := s.owned("b")
	for _, x := range busy {
		s.runs("b", x)
	}
	s.actor("b").leaving = true
	for _, x := range busy {
		s.run(20 * time.Second)
		delete(s.actor("b").runs, x)
	}
	ended := s.now
	s.until("b owns nothing", func() bool { return s.state.Committed().ShardCount("b") == 0 && !s.state.HasOpenProposal() })
	if took := s.now - ended; took > time.Second {
		t.Errorf("the last shard moved %v after its request had ended:\n%s", took, s)
	}
}

// An ordinary drain replaces a gradual one. The leader asks the owner again, because a request
// may have begun since the owner reported a shard as idle.
func TestAnswersOfAGradualDrainEndWithIt(t *testing.T) {
	s := serving(t, "a", "b", "c")
	busy, epoch := s.owned("b")[0], s.state.Proposed().Epoch()
	s.changePolicy("a", ack.Change{Kind: ack.ChangeDrainGradually, Node: "b", Duration: time.Hour})
	s.run(50 * time.Millisecond)
	s.step(s.leaders["a"], leader.IdleShards{Node: "b", MapEpoch: s.state.Committed().Epoch(), Shards: s.owned("b")})
	s.stuck = true
	s.changePolicy("a", ack.Change{Kind: ack.ChangeDrain, Node: "b"})
	s.runs("b", busy)
	s.run(700 * time.Millisecond)
	s.stuck = false
	s.flush()
	s.until("a proposal", func() bool { return s.state.Proposed().Epoch() != epoch })
	if got := s.state.Proposed().Owner(busy); got != "b" {
		t.Errorf("busy shard %d goes to %q:\n%s", busy, got, s)
	}
}

// An answer in a planned change is not used in the next change, even if a crash leaves no time
// to ask again.
func TestAnswersEndWithTheirChange(t *testing.T) {
	s := serving(t, "a", "b", "c")
	moving, next, epoch := s.owned("b")[0], s.owned("b")[1], s.state.Proposed().Epoch()
	s.runs("b", moving)
	for _, x := range s.owned("a") {
		s.runs("a", x)
	}
	s.changePolicy("a", ack.Change{Kind: ack.ChangePin, Shard: moving, Node: "a"})
	s.run(500 * time.Millisecond)
	s.changePolicy("a", ack.Change{Kind: ack.ChangeUnpin, Shard: moving})
	s.run(500 * time.Millisecond)
	s.runs("b", next)
	s.stuck = true
	s.changePolicy("a", ack.Change{Kind: ack.ChangeDrain, Node: "b"})
	s.crash("c")
	s.step(s.leaders["a"], leader.CrashEvidence{Node: "c", Boot: s.actor("c").boot, Nonce: s.actor("c").nonce, RedialStartedAt: s.now})
	s.stuck = false
	s.flush()
	s.until("a proposal", func() bool { return s.state.Proposed().Epoch() != epoch })
	if got := s.state.Proposed().Owner(next); got != "b" {
		t.Errorf("busy shard %d goes to %q:\n%s", next, got, s)
	}
}

// A second drain enters the log while the owner of the first one answers. The answer counts, and
// busy shards stay.
func TestAnswerDuringAnotherEntryCounts(t *testing.T) {
	s := serving(t, "a", "b", "c")
	busy, l, epoch := s.owned("b")[0], s.leaders["a"], s.state.Proposed().Epoch()
	s.runs("b", busy)
	s.actor("b").reticent = true
	s.changePolicy("a", ack.Change{Kind: ack.ChangeDrain, Node: "b"})
	s.until("a query", func() bool { awaits, _ := l.turn.AwaitsIdleShards("b"); return awaits })
	s.stuck = true
	s.changePolicy("a", ack.Change{Kind: ack.ChangeWeight, Node: "c", Weight: 2})
	s.actor("b").reticent = false
	s.reportIdle(l, s.actor("b"))
	s.stuck = false
	s.flush()
	s.until("a proposal", func() bool { return s.state.Proposed().Epoch() != epoch })
	if got := s.state.Proposed().Owner(busy); got != "b" {
		t.Errorf("busy shard %d goes to %q:\n%s", busy, got, s)
	}
}

// An entry takes long to enter the log. A request begins after the answer, and the leader asks
// again.
func TestAnswerBeforeALongWaitIsAskedForAgain(t *testing.T) {
	s := serving(t, "a", "b", "c")
	busy, l, epoch := s.owned("b")[0], s.leaders["a"], s.state.Proposed().Epoch()
	s.actor("b").reticent = true
	s.changePolicy("a", ack.Change{Kind: ack.ChangeDrain, Node: "b"})
	s.until("a query", func() bool { awaits, _ := l.turn.AwaitsIdleShards("b"); return awaits })
	s.stuck = true
	s.changePolicy("a", ack.Change{Kind: ack.ChangeWeight, Node: "c", Weight: 2})
	s.actor("b").reticent = false
	s.reportIdle(l, s.actor("b"))
	s.run(700 * time.Millisecond)
	s.runs("b", busy)
	s.stuck = false
	s.flush()
	s.until("a proposal", func() bool { return s.state.Proposed().Epoch() != epoch })
	if got := s.state.Proposed().Owner(busy); got != "b" {
		t.Errorf("busy shard %d goes to %q:\n%s", busy, got, s)
	}
}

// The leader is paused between its query and the answer. The answer counts.
func TestAnswerAfterAStallOfTheLeaderCounts(t *testing.T) {
	s := serving(t, "a", "b", "c")
	busy, l, epoch := s.owned("b")[0], s.leaders["a"], s.state.Proposed().Epoch()
	s.runs("b", busy)
	s.actor("b").reticent = true
	s.changePolicy("a", ack.Change{Kind: ack.ChangeDrain, Node: "b"})
	s.until("a query", func() bool { awaits, _ := l.turn.AwaitsIdleShards("b"); return awaits })
	s.now += 300 * time.Millisecond
	s.step(l, leader.Tick{})
	s.actor("b").reticent = false
	s.reportIdle(l, s.actor("b"))
	s.until("a proposal", func() bool { return s.state.Proposed().Epoch() != epoch })
	if got := s.state.Proposed().Owner(busy); got != "b" {
		t.Errorf("busy shard %d goes to %q:\n%s", busy, got, s)
	}
}

// A gradual drain begins while the leader waits for the answer of an owner in a staged change.
// Neither that answer nor a missing answer affects the gradual drain.
func TestGradualDrainEndsAnOpenQuery(t *testing.T) {
	for _, answers := range []bool{false, true} {
		s := serving(t, "a", "b", "c")
		l := s.leaders["a"]
		s.actor("b").reticent = true
		s.changePolicy("a", ack.Change{Kind: ack.ChangePin, Shard: s.owned("b")[0], Node: "a"})
		s.until("a query", func() bool { awaits, _ := l.turn.AwaitsIdleShards("b"); return awaits })
		s.changePolicy("a", ack.Change{Kind: ack.ChangeUnpin, Shard: s.owned("b")[0]}, ack.Change{Kind: ack.ChangeDrainGradually, Node: "b", Duration: time.Hour})
		if answers {
			s.actor("b").reticent = false
			s.reportIdle(l, s.actor("b"))
		}
		s.run(200 * time.Millisecond)
		if got := s.state.Proposed().ShardCount("b"); got != 4 {
			t.Errorf("answers %v: b owns %d shards, want 4:\n%s", answers, got, s)
		}
	}
}
