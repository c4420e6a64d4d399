package ack_test

import (
	"slices"
	"testing"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// standbyInputs returns the inputs of standbys for a cluster without zones.
func standbyInputs(replicas int) ack.StandbyInputs {
	return ack.StandbyInputs{Replicas: map[string]int{ack.DefaultService: replicas}}
}

// The first map after a crash gives each shard of the crashed node to its first standby, and moves no other
// shard. The next map makes the numbers of shards even.
func TestFirstStandbyTakesOverShardsOfACrashedNode(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a", "b", "c", "d")
	s.replicas = map[string]int{ack.DefaultService: 1}
	s.start("a", "b", "c", "d")
	s.elect("a")
	s.until("the map is even", func() bool { return s.state.Committed().ShardCount("d") == 3 })
	s.run(time.Second)
	before := s.state.Committed()
	standbys := s.state.Standbys(standbyInputs(1))
	s.crash("c")
	s.until("the shards have other owners", func() bool { return s.state.Committed().ShardCount("c") == 0 })
	taken := s.state.Committed()
	for shard := range shardmap.Shard(before.Len()) {
		want := before.Owner(shard)
		if want == "c" {
			want = standbys.Of(shard)[0]
		}
		if got := taken.Owner(shard); got != want {
			t.Errorf("shard %d of %s with standbys %v went to %s", shard, before.Owner(shard), standbys.Of(shard), got)
		}
	}
	s.until("the map is even", func() bool {
		committed := s.state.Committed()
		return committed.ShardCount("a") == 4 && committed.ShardCount("b") == 4 && committed.ShardCount("d") == 4
	})
}

func TestNodesWithoutTheRoleAreNoStandbys(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a", "b", "c")
	s.start("a", "b", "c")
	s.elect("a")
	s.until("the map is even", func() bool { return s.state.Committed().ShardCount("c") == 4 })
	s.run(time.Second)
	s.changePolicy("a", ack.Change{Kind: ack.ChangeRole, Role: "gpu"})
	inputs := standbyInputs(2)
	inputs.Roles = map[shardmap.NodeID][]string{"a": {"gpu"}, "b": {"gpu", "disk"}, "c": {"disk"}}
	standbys := s.state.Standbys(inputs)
	for shard := range s.state.Committed().Shards("a") {
		if got := standbys.Of(shard); !slices.Equal(got, []shardmap.NodeID{"b"}) {
			t.Errorf("standbys %v of shard %d, want only b: c does not have the role", got, shard)
		}
	}
}

func TestStandbysOfEachServiceHaveTheirOwnNumber(t *testing.T) {
	t.Parallel()
	s := servingServices(t)
	standbys := s.state.Standbys(ack.StandbyInputs{Replicas: map[string]int{"chat": 2}})
	chat, _ := s.state.Service("chat")
	for shard := range shardmap.Shard(s.state.Committed().Len()) {
		got, want := standbys.Of(shard), []shardmap.NodeID(nil)
		if chat.Contains(shard) { // only b and c run the service
			want = []shardmap.NodeID{map[shardmap.NodeID]shardmap.NodeID{"b": "c", "c": "b"}[s.state.Committed().Owner(shard)]}
		}
		if !slices.Equal(got, want) {
			t.Errorf("standbys %v of shard %d, want %v", got, shard, want)
		}
	}
}
