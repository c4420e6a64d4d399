package ack_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/shardmap"
)

func restrict(role string) ack.Change { return ack.Change{Kind: ack.ChangeRole, Role: role} }

// servingWithRoles returns a stage on which a and b have the role app, and c has another role.
func servingWithRoles(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, "a", "b", "c")
	s.actor("a").roles, s.actor("b").roles, s.actor("c").roles = []string{"app"}, []string{"app", "db"}, []string{"db"}
	s.start("a", "b", "c")
	s.elect("a")
	s.run(600 * time.Millisecond)
	for _, id := range []shardmap.NodeID{"a", "b", "c"} {
		if s.state.Committed().ShardCount(id) != 4 {
			t.Fatalf("%s owns %d shards, want 4:\n%s", id, s.state.Committed().ShardCount(id), s)
		}
	}
	return s
}

// untilOwned waits until no proposal is open and the nodes own these numbers of shards.
func (s *stage) untilOwned(a, b, c int) {
	s.t.Helper()
	s.until("the shards of the nodes", func() bool {
		m := s.state.Committed()
		return !s.state.HasOpenProposal() && m.ShardCount("a") == a && m.ShardCount("b") == b && m.ShardCount("c") == c
	})
}

func TestShardsAreRestrictedToNodesWithRole(t *testing.T) {
	s := servingWithRoles(t)
	s.changePolicy("a", restrict("app"))
	s.untilOwned(6, 6, 0)
	s.run(2 * time.Second)
	s.untilOwned(6, 6, 0)
	if !s.state.Committed().IsMember("c") || !s.actor("c").leased {
		t.Errorf("c is no member of the map, or has no lease:\n%s", s)
	}
	s.changePolicy("a", restrict("db"))
	s.untilOwned(0, 6, 6)
	s.changePolicy("a", restrict(""))
	s.untilOwned(4, 4, 4)
}

// A busy shard of a node without the role stays until its requests have ended, like that of any other owner.
func TestBusyShardOfNodeWithoutRoleMovesLater(t *testing.T) {
	s := servingWithRoles(t)
	var busy shardmap.Shard
	for s.state.Committed().Owner(busy) != "c" {
		busy++
	}
	s.actor("c").runs = map[shardmap.Shard]bool{busy: true}
	s.changePolicy("a", restrict("app"))
	s.until("the idle shards moved", func() bool { return !s.state.HasOpenProposal() && s.state.Committed().ShardCount("c") == 1 })
	if owner := s.state.Committed().Owner(busy); owner != "c" {
		t.Errorf("the busy shard %d is at %s, want c", busy, owner)
	}
	s.actor("c").runs = nil
	s.untilOwned(6, 6, 0)
}

// A plan names the role as the reason of a move, and a pause delays the moves.
func TestRestrictionToRoleIsTheReasonOfMoves(t *testing.T) {
	s := servingWithRoles(t)
	s.changePolicy("a", restrict("app"), pause(time.Hour))
	s.run(time.Second)
	s.untilOwned(4, 4, 4) // a pause delays the moves
	p := s.plan()
	if len(p.Moves) != 0 || len(p.Resumed) != 4 {
		t.Fatalf("plan = %+v, want four moves that wait for the end of the pause", p)
	}
	for _, move := range p.Resumed {
		if move.From != "c" || move.Reason != "role" {
			t.Errorf("planned %+v, want a move from c because of the role", move)
		}
	}
	s.changePolicy("a", ack.Change{Kind: ack.ChangeResume})
	s.untilOwned(6, 6, 0)
}

// Nodes without the role own shards rather than no node: the cluster stays available.
func TestNodesWithoutRoleOwnShardsIfNoNodeHasIt(t *testing.T) {
	s := servingWithRoles(t)
	s.changePolicy("a", restrict("nobody"))
	s.run(2 * time.Second)
	s.untilOwned(4, 4, 4) // no node has the role: every shard stays
	s.changePolicy("a", restrict("db"))
	s.untilOwned(0, 6, 6)
	s.crash("b")
	s.untilOwned(0, 0, 12)
	s.actor("c").roles = nil
	s.crash("c")
	s.start("c")
	s.run(2 * time.Second) // the last node with the role has lost it
	for shard := range shardmap.Shard(12) {
		if s.state.Committed().Owner(shard) == "" {
			t.Fatalf("shard %d is orphaned:\n%s", shard, s)
		}
	}
	s.actor("b").roles = []string{"db"}
	s.start("b")
	s.untilOwned(0, 12, 0)
}

// A node with the role that gets no further shards does not take those of nodes without the role.
func TestCordonedNodeWithRoleTakesNoShards(t *testing.T) {
	s := servingWithRoles(t)
	s.changePolicy("a", ack.Change{Kind: ack.ChangeCordon, Node: "a"}, ack.Change{Kind: ack.ChangeCordon, Node: "b"}, restrict("app"))
	s.run(2 * time.Second)
	s.untilOwned(4, 4, 4)
	s.changePolicy("a", uncordon("b"))
	s.untilOwned(4, 8, 0)
}

// A new leader does not know the roles of nodes that it has not heard. It moves no shards for that.
func TestNewLeaderMovesNoShardsBeforeItKnowsRoles(t *testing.T) {
	s := servingWithRoles(t)
	s.changePolicy("a", restrict("app"))
	s.untilOwned(6, 6, 0)
	before := s.state.Committed()
	s.elect("b")
	s.run(2 * time.Second)
	if moves := shardmap.Diff(before, s.state.Committed()); len(moves) > 0 {
		t.Errorf("moved %v after an election:\n%s", moves, s)
	}
}

// A node without the role owns the shards that no app with the role can acquire, until an app with the role can.
func TestNodesWithoutRoleOwnShardsThatNoOtherAppAcquires(t *testing.T) {
	for _, acquiresNone := range []bool{false, true} {
		s := newStage(t, "a", "b", "c")
		a := s.actor("a")
		a.roles = []string{"app"}
		s.start("a", "b", "c")
		s.elect("a")
		s.run(600 * time.Millisecond)
		ofC := slices.Collect(s.state.Committed().Shards("c"))[0]
		a.unacquired = []shardmap.Shard{ofC}
		s.run(time.Second)
		s.changePolicy("a", restrict("app"))
		s.run(5 * time.Second)
		if s.untilOwned(11, 0, 1); s.state.Committed().Owner(ofC) != "c" {
			t.Errorf("shard %d left c, and the app of a fails to acquire it:\n%s", ofC, s)
		}
		ofA := slices.DeleteFunc(slices.Collect(s.state.Committed().Shards("a")), func(shard shardmap.Shard) bool { return shard == ofC })[:2]
		a.unacquired = slices.Sorted(slices.Values(append(ofA, ofC)))
		a.acquiresNone = acquiresNone
		s.run(5 * time.Second)
		s.untilOwned(9, 2, 1) // the others stay, and b owns fewer than c
		a.unacquired, a.acquiresNone = nil, false
		s.untilOwned(12, 0, 0)
	}
}

// An orphaned shard goes to a node without the role if each node with the role may have an old copy of it, also while
// moves are paused and while a new leader does not know the role of a node. It moves when the app of a node with the
// role has restarted.
func TestNodeWithoutRoleOwnsShardsOfWhichOthersMayHaveOldCopies(t *testing.T) {
	for _, test := range []struct {
		isPaused           bool
		newLeader, unknown shardmap.NodeID // the new leader has no heartbeat of the node unknown
	}{{}, {isPaused: true}, {newLeader: "c", unknown: "b"}, {newLeader: "b", unknown: "c"}} {
		s := newStage(t, "a", "b", "c")
		s.actor("a").roles, s.actor("b").roles = []string{"app"}, []string{"app"}
		for _, id := range []shardmap.NodeID{"a", "b", "c"} {
			s.actor(id).caches = true
		}
		s.start("a", "b")
		s.elect("a")
		s.run(600 * time.Millisecond)
		s.changePolicy("a", restrict("app"))
		s.start("c")
		s.actor("c").follows, s.actor("c").term = "a", s.term
		s.until("c is a member of the map", func() bool { return s.state.Committed().IsMember("c") })
		s.untilOwned(6, 6, 0)
		s.run(time.Second)
		s.crash("b")
		s.untilOwned(12, 0, 0)
		s.start("b")
		s.untilOwned(6, 6, 0) // b owns those that a had at the beginning, and may have old copies of the others
		s.run(time.Second)
		changes := []ack.Change{{Kind: ack.ChangeDrain, Node: "a"}}
		if test.isPaused {
			changes = append(changes, pause(time.Hour))
		}
		if test.newLeader != "" {
			s.actor(test.unknown).mute = true
		}
		s.changePolicy("a", changes...)
		if test.newLeader != "" {
			s.until("a proposes to move its shards", func() bool { return s.state.HasOpenProposal() })
			l, before := s.electStuck(test.newLeader), s.state.Proposed()
			s.run(100 * time.Millisecond)
			s.step(l, leader.BarrierApplied{})
			s.until("the new leader proposes a map", func() bool { return s.state.Proposed() != before })
			if n := s.state.Proposed().ShardCount("c"); n != 6 {
				t.Errorf("%+v: the new leader proposes %d shards for c, want 6:\n%s", test, n, s)
			}
			s.actor(test.unknown).mute = false
		}
		s.untilOwned(0, 6, 6)
		s.run(2 * time.Second)
		s.untilOwned(0, 6, 6)
		if n := s.state.StaleReturns("b"); n != 0 {
			t.Errorf("%+v: %d shards returned to b:\n%s", test, n, s)
		}
		if test.isPaused {
			s.changePolicy("a", ack.Change{Kind: ack.ChangeResume})
		}
		s.actor("b").appStartedAfter = s.state.Committed().Epoch()
		s.untilOwned(0, 12, 0)
	}
}

func TestRoleOfPolicySurvivesSnapshotAndRecovery(t *testing.T) {
	s := servingWithRoles(t)
	change := restrict("app")
	change.Reason = "licences"
	s.changePolicy("a", change)
	s.untilOwned(6, 6, 0)
	snapshot, err := s.state.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	state, err := ack.DecodeState(snapshot)
	if err != nil || state.Policy().Role != "app" || state.Policy().Reasons[ack.PolicyItem{Kind: ack.ChangeRole}] != "licences" {
		t.Errorf("role %q after a snapshot, %v", state.Policy().Role, err)
	}
	if kept := state.Policy().ForRecoveredCluster(); kept.Role != "app" {
		t.Errorf("role %q after a recovery, want app", kept.Role)
	}
	s.changePolicy("a", restrict(""))
	if p := s.state.Policy(); p.Role != "" || len(p.Reasons) > 0 {
		t.Errorf("policy %+v after the end of the restriction", *p)
	}
}

func TestRolesNeedTheirFormatVersion(t *testing.T) {
	bootstrap := ack.EncodeBootstrap("c", 8, ack.DefaultTiming())
	bootstrap[0] = byte(ack.RolesFormatVersion - 1)
	s, _, err := ack.NewState().Apply(1, 1, bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []ack.Change{restrict("app"), restrict(""), markFailed("a")} {
		if err := s.CheckChanges([]ack.Change{change}); !errors.Is(err, ack.ErrChange) || !strings.Contains(err.Error(), "shardway upgrade status") {
			t.Errorf("%+v in format version %d: %v, want the command that shows the upgrade", change, s.FormatVersion(), err)
		}
		entry := ack.EncodePolicyChange(s.FormatVersion(), ack.PolicyEntry{Term: 1, Changes: []ack.Change{change}})
		if _, _, err := s.Apply(2, 1, entry); !errors.Is(err, ack.ErrCorrupt) {
			t.Errorf("%+v applied in format version %d: %v", change, s.FormatVersion(), err)
		}
	}
	heartbeat := ack.Heartbeat{FormatVersion: ack.RolesFormatVersion, Node: "a", Server: "a/d", Boot: 1, Number: 1, Weight: 1, Roles: []string{"app", "db"}}
	for version, want := range map[ack.FormatVersion]int{ack.RolesFormatVersion: 2, ack.RolesFormatVersion - 1: 0} {
		heartbeat.FormatVersion = version
		encoded, _ := heartbeat.MarshalBinary()
		var decoded ack.Heartbeat
		if err := decoded.UnmarshalBinary(encoded); err != nil || len(decoded.Roles) != want {
			t.Errorf("format version %d: roles %q, %v", version, decoded.Roles, err)
		}
	}
	heartbeat.FormatVersion, heartbeat.Roles = ack.RolesFormatVersion, []string{"b", "a"}
	encoded, _ := heartbeat.MarshalBinary()
	if err := new(ack.Heartbeat).UnmarshalBinary(encoded); !errors.Is(err, ack.ErrCorrupt) {
		t.Errorf("roles out of order: %v", err)
	}
}
