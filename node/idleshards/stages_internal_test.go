package idleshards

import (
	"testing"

	"shardway/ack"
	"shardway/node/leaderloop"
	"shardway/proxy"
	"shardway/shardmap"
)

// The stage of a shard that moves depends on its running requests at three times: at the leader's question, at the start of the round, and
// when requests were aborted.
func TestStageOfAShardThatIsGivenUp(t *testing.T) {
	m := shardmap.Assign(shardmap.New(6), []shardmap.Member{{ID: "a", Weight: 1}}, shardmap.Policy{})
	var g Stages
	g.recordAnswer(m, "a", []shardmap.Shard{0, 1, 2, 3}, nil, leaderloop.StagedIdleRequest{})
	g.held, g.aborted = map[shardmap.Shard]bool{1: true, 2: true}, map[shardmap.Shard]bool{}
	g.RecordAborted(func(s shardmap.Shard) bool { return s == 3 }, func(s shardmap.Shard) int { return map[shardmap.Shard]int{2: 1}[s] })
	for s, want := range map[shardmap.Shard]string{0: StageIdle, 1: StageFinished, 2: StageAborted, 3: StageIdle, 4: StageFinished} {
		if got := g.StageOf(s); got != want {
			t.Errorf("shard %d: %s, want %s", s, got, want)
		}
	}
	g.recordAnswer(m, "a", []shardmap.Shard{0, 1, 2, 3, 4, 5}, nil, leaderloop.StagedIdleRequest{})
	if got := g.StageOf(5); got != StageIdle {
		t.Errorf("shard 5, busy in an earlier change: %s, want %s", got, StageIdle)
	}
}

// The shards that a proposal takes and that have running requests are held. Nothing of the previous round remains.
func TestHeldShardsAreThoseOfTheOpenRound(t *testing.T) {
	g := Stages{held: map[shardmap.Shard]bool{9: true}, aborted: map[shardmap.Shard]bool{9: true}}
	g.RecordProposal(ack.NewState(), "a", func(shardmap.Shard) int { return 1 })
	if len(g.held) != 0 || len(g.aborted) != 0 {
		t.Errorf("%v are held and %v cut, and no round is open", g.held, g.aborted)
	}
}

// A shard with many short requests counts as idle from the second question on. A request that
// ran at the question before does not.
func TestRequestsThatRanAtTheQuestionBeforeLast(t *testing.T) {
	m := shardmap.New(1)
	var g Stages
	long, short := proxy.Run{Number: 1}, proxy.Run{Number: 2}
	if g.ranBefore([]proxy.Run{long}) {
		t.Error("a request is old, and nobody has asked")
	}
	runs := map[shardmap.Shard]proxy.ShardRuns{0: {Requests: []proxy.Run{long}}}
	g.recordAnswer(m, "a", nil, runs, leaderloop.StagedIdleRequest{})
	if g.ranBefore([]proxy.Run{short}) || !g.ranBefore([]proxy.Run{short, long}) {
		t.Error("old is what ran at the question before, and nothing else")
	}
	g.recordAnswer(m, "a", nil, nil, leaderloop.StagedIdleRequest{Number: 1, Held: true})
	if !g.ranBefore([]proxy.Run{long}) {
		t.Error("a question about an open round is no question before")
	}
}
