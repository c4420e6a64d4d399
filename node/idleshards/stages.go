package idleshards

import (
	"slices"
	"sync"

	"shardway/ack"
	"shardway/node/leaderloop"
	"shardway/proxy"
	"shardway/shardmap"
)

// A planned map change moves shards in stages: first the idle shards, then the busy ones, whose requests may finish
// until drain-timeout. The following values name the stage in which a shard moved. They are labels of the metric
// shardway_handed_over_shards_total.
const (
	// StageIdle means that the shard had no running request.
	StageIdle = "idle"
	// StageFinished means that the requests of the shard ended before the shard moved. New requests may
	// have waited in the queue in the meantime.
	StageFinished = "finished"
	// StageAborted means that requests of the shard were aborted at drain-timeout.
	StageAborted = "aborted"
)

// Stages records the requests that run for the shards that this node gives up, for the labels of the
// metric and for Tracker.AnswerStage. mu protects busy and previousRuns, which any goroutine may use. Only the
// goroutine of the agent uses held and aborted.
type Stages struct {
	mu           sync.Mutex
	busy         map[shardmap.Shard]bool // shards that this node has reported as busy in the current map change
	previousRuns map[proxy.Run]bool      // requests that ran at the last question of the leader
	held         map[shardmap.Shard]bool // shards with requests when the open proposal, which moves them, was applied
	aborted      map[shardmap.Shard]bool // shards whose requests were aborted
}

// recordAnswer records the state at a question q of the leader: the shards of self in m that are busy, that is, not
// in idle, and the running requests in runs. The first question of a map change clears the busy shards of the
// previous one.
func (g *Stages) recordAnswer(m *shardmap.Map, self shardmap.NodeID, idle []shardmap.Shard, runs map[shardmap.Shard]proxy.ShardRuns, q leaderloop.StagedIdleRequest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy == nil || q.Number == 0 && !q.Held {
		g.busy = map[shardmap.Shard]bool{}
	}
	isIdle := make(map[shardmap.Shard]bool, len(idle))
	for _, s := range idle {
		isIdle[s] = true
	}
	for s := range m.Shards(self) {
		if !isIdle[s] {
			g.busy[s] = true
		}
	}
	if q.Held {
		return
	}
	g.previousRuns = map[proxy.Run]bool{}
	for _, shard := range runs {
		for _, run := range shard.Requests {
			g.previousRuns[run] = true
		}
	}
}

// ranBefore reports whether one of these requests already ran at the previous question of the leader.
func (g *Stages) ranBefore(runs []proxy.Run) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(runs, func(r proxy.Run) bool { return g.previousRuns[r] })
}

// RecordProposal records the shards with running requests that the open proposal of s moves away from this node.
// running returns the number of requests of a shard.
func (g *Stages) RecordProposal(s *ack.State, self shardmap.NodeID, running func(shardmap.Shard) int) {
	g.held, g.aborted = map[shardmap.Shard]bool{}, map[shardmap.Shard]bool{}
	for shard := range s.Committed().Shards(self) {
		if !s.Proposed().HasSameOwner(s.Committed(), shard) && running(shard) > 0 {
			g.held[shard] = true
		}
	}
}

// RecordAborted records that the requests of the shards that the open proposal moves away are aborted now. mayServe
// reports whether this node may still serve a shard.
func (g *Stages) RecordAborted(mayServe func(shardmap.Shard) bool, running func(shardmap.Shard) int) {
	for shard := range g.held {
		if !mayServe(shard) && running(shard) > 0 {
			g.aborted[shard] = true
		}
	}
}

// StageOf returns the stage in which the shard s moved. The caller must call it when this node has just
// given up s.
func (g *Stages) StageOf(s shardmap.Shard) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	busy := g.busy[s] || g.held[s]
	delete(g.busy, s)
	switch {
	case g.aborted[s]:
		return StageAborted
	case busy:
		return StageFinished
	}
	return StageIdle
}
