package ack_test

import (
	"slices"
	"testing"
	"time"

	"shardway/shardmap"
)

// secondInstance is the set of the second instance only.
const secondInstance shardmap.InstanceSet = 1 << 1

// ownedByB returns the shards of an instance of node b in the committed map.
func (s *stage) ownedByB(instance shardmap.Instance) []shardmap.Shard {
	return slices.DeleteFunc(s.owned("b"), func(x shardmap.Shard) bool { return s.state.Committed().Instance(x) != instance })
}

// servingInstances returns a stage with nodes a, b and c. Node b has two instances.
func servingInstances(t *testing.T) *stage {
	t.Helper()
	s := serving(t, "a", "b", "c")
	s.actor("b").instances = shardmap.InstancesUpTo(2)
	s.until("both instances own shards", func() bool {
		return len(s.ownedByB(0)) == 2 && len(s.ownedByB(1)) == 2 && !s.state.HasOpenProposal()
	})
	s.lines = nil
	return s
}

// Shards of a failed instance move immediately, although their node defers the moves of its busy
// shards. That must also hold if the node is not in the next map: because it is drained, because each
// of its healthy instances is, or because it stops. These shards once stayed at the failed instance
// for up to drain-timeout. The busy shards of the other instance still wait.
func TestShardsOfFailedInstanceLeaveADrainedNodeImmediately(t *testing.T) {
	for name, begin := range map[string]func(s *stage){
		"drain":                      func(s *stage) { s.changePolicy("a", drain("b")) },
		"drain of the other one":     func(s *stage) { s.changePolicy("a", drain("b/2")) },
		"leave":                      func(s *stage) { s.actor("b").leaving = true },
		"failure at the same moment": func(s *stage) { s.changePolicy("a", drain("b")); s.actor("b").instances = secondInstance },
	} {
		t.Run(name, func(t *testing.T) {
			s := servingInstances(t)
			first, second := s.ownedByB(0), s.ownedByB(1)
			s.runs("b", first[0])
			s.runs("b", second[0])
			begin(s)
			s.run(time.Second)
			if owner := s.state.Committed().OwnerInstanceID(second[0]); owner != "b/2" {
				t.Fatalf("busy shard %d is at %s after a second:\n%s", second[0], owner, s)
			}
			s.actor("b").instances = secondInstance
			delete(s.actor("b").runs, first[0]) // the request fails
			s.actor("b").reticent = true        // so its answers do not help
			s.run(200 * time.Millisecond)
			for _, shard := range first {
				if owner := s.state.Committed().Owner(shard); owner == "b" {
					t.Errorf("shard %d is still at the failed instance:\n%s", shard, s)
				}
			}
			s.run(2 * time.Second)
			if owner := s.state.Committed().OwnerInstanceID(second[0]); owner != "b/2" || !s.actor("b").runs[second[0]] {
				t.Errorf("busy shard %d is at %s, its request runs: %v:\n%s", second[0], owner, s.actor("b").runs[second[0]], s)
			}
			s.until("b owns nothing", func() bool { return s.state.Committed().ShardCount("b") == 0 })
		})
	}
}

// A new leader has no heartbeat of node b, and so no evidence that one of its instances has failed.
// The map does not contain drained instances, so they must not count as failed, and the node must not
// count as drained. It once lost its shards if its first instance was drained.
func TestElectionMovesNoShardOfNodeWithDrainedInstances(t *testing.T) {
	for name, c := range map[string]struct {
		drained []shardmap.NodeID
		// busy are the instances that have a shard with a request.
		busy []shardmap.Instance
	}{
		"the first instance":                {[]shardmap.NodeID{"b/1"}, nil},
		"the first instance, busy":          {[]shardmap.NodeID{"b/1"}, []shardmap.Instance{0}},
		"the second instance, busy":         {[]shardmap.NodeID{"b/2"}, []shardmap.Instance{1}},
		"the node, second instance busy":    {[]shardmap.NodeID{"b"}, []shardmap.Instance{1}},
		"all instances, first one busy":     {[]shardmap.NodeID{"b/1", "b/2"}, []shardmap.Instance{0}},
		"all instances, both of them busy":  {[]shardmap.NodeID{"b/1", "b/2"}, []shardmap.Instance{0, 1}},
		"all instances, one after another":  {[]shardmap.NodeID{"b/2", "", "b/1"}, []shardmap.Instance{0, 1}},
		"all instances, second one is last": {[]shardmap.NodeID{"b/1", "", "b/2"}, []shardmap.Instance{1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingInstances(t)
			for _, instance := range c.busy {
				s.runs("b", s.ownedByB(instance)[0])
			}
			for _, id := range c.drained {
				if id == "" {
					s.run(500 * time.Millisecond)
				} else {
					s.changePolicy("a", drain(id))
				}
			}
			s.run(500 * time.Millisecond)
			s.until("idle shards have moved", func() bool { return !s.state.HasOpenProposal() })
			before := s.state.Committed()
			s.actor("b").mute = true
			s.elect("c")
			for range 5 {
				s.run(stageTick)
				if moves := shardmap.Diff(before, s.state.Proposed()); len(moves) > 0 {
					t.Fatalf("moves %+v:\n%s", moves, s)
				}
			}
			s.actor("b").mute = false
			s.run(time.Second)
			if moves := shardmap.Diff(before, s.state.Proposed()); len(moves) > 0 {
				t.Errorf("moves %+v after the heartbeat of b:\n%s", moves, s)
			}
		})
	}
}

// The first instance of node b is drained and busy, and the second one has failed. A new leader has no
// heartbeat of the node, and must not give it further shards.
func TestElectionReturnsNoShardToFailedSiblingOfDrainedInstance(t *testing.T) {
	s := servingInstances(t)
	s.runs("b", s.ownedByB(0)[0])
	s.changePolicy("a", drain("b/1"))
	s.run(500 * time.Millisecond)
	s.actor("b").instances = 0
	s.until("b owns one shard", func() bool { return s.state.Committed().ShardCount("b") == 1 && !s.state.HasOpenProposal() })
	s.actor("b").mute = true
	s.elect("c")
	for range 5 {
		s.run(stageTick)
		if count := s.state.Proposed().ShardCount("b"); count != 1 {
			t.Fatalf("b gets %d shards:\n%s", count, s)
		}
	}
}
