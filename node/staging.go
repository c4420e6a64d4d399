package node

import (
	"slices"
	"sync"

	"shardway/ack"
	"shardway/node/leaderloop"
	"shardway/proxy"
	"shardway/shardmap"
)

// A planned map change moves shards in stages: first the idle shards, then the busy ones, whose requests
// may finish until drain-timeout. The following values tell in which stage a shard moved. They are labels
// of the metric shardway_moved_shards_total.
const (
	// stageIdle means that the shard had no running request.
	stageIdle = "idle"
	// stageFinished means that the requests of the shard ended before the shard moved. New requests may
	// have waited in the queue in the meantime.
	stageFinished = "finished"
	// stageAborted means that requests of the shard were aborted at drain-timeout.
	stageAborted = "aborted"
)

// moveStages records the requests that run for the shards that this node gives up, for the labels of the
// metric and for idleInStage. mu protects busy and ran, which any goroutine may use. Only the goroutine
// of agent.run uses held and cut.
type moveStages struct {
	mu   sync.Mutex
	busy map[shardmap.Shard]bool // shards that this node has reported as busy in the current map change
	ran  map[proxy.Run]bool      // requests that ran at the last question of the leader
	held map[shardmap.Shard]bool // shards with requests when the open proposal, which moves them, was applied
	cut  map[shardmap.Shard]bool // shards whose requests were aborted
}

// recordAnswer records the state at a question q of the leader: the shards of self in m that are busy, that
// is, not in idle, and the running requests in runs. The first question of a map change clears the busy
// shards of the previous change.
func (g *moveStages) recordAnswer(m *shardmap.Map, self shardmap.NodeID, idle []shardmap.Shard, runs map[shardmap.Shard]proxy.ShardRuns, q leaderloop.StageQuestion) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy == nil || q.Number == 0 && !q.Held {
		g.busy = map[shardmap.Shard]bool{}
	}
	is := make(map[shardmap.Shard]bool, len(idle))
	for _, s := range idle {
		is[s] = true
	}
	for s := range m.Shards(self) {
		if !is[s] {
			g.busy[s] = true
		}
	}
	if q.Held {
		return
	}
	g.ran = map[proxy.Run]bool{}
	for _, x := range runs {
		for _, r := range x.Requests {
			g.ran[r] = true
		}
	}
}

// ranBefore reports whether one of these requests already ran at the previous question of the leader.
func (g *moveStages) ranBefore(runs []proxy.Run) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(runs, func(r proxy.Run) bool { return g.ran[r] })
}

// recordHeld records the shards with running requests that the open proposal of s moves away from this node.
// running returns the number of requests of a shard.
func (g *moveStages) recordHeld(s *ack.State, self shardmap.NodeID, running func(shardmap.Shard) int) {
	g.held, g.cut = map[shardmap.Shard]bool{}, map[shardmap.Shard]bool{}
	for x := range s.Committed().Shards(self) {
		if s.Proposed().Owner(x) != self && running(x) > 0 {
			g.held[x] = true
		}
	}
}

// recordAborted records that the requests of the shards that the open proposal moves away are aborted now. may
// reports whether this node may still serve a shard.
func (g *moveStages) recordAborted(may func(shardmap.Shard) bool, running func(shardmap.Shard) int) {
	for x := range g.held {
		if !may(x) && running(x) > 0 {
			g.cut[x] = true
		}
	}
}

// stageOf returns the stage in which the shard s moved. The caller must call it when this node has just
// given up s.
func (g *moveStages) stageOf(s shardmap.Shard) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	busy := g.busy[s] || g.held[s]
	delete(g.busy, s)
	switch {
	case g.cut[s]:
		return stageAborted
	case busy:
		return stageFinished
	}
	return stageIdle
}

// idleInStage returns the response to the leader's question q in a staged map change. It reports the
// shards that can move now. From the second question on, the following shards count as idle, too:
//
//   - Shards whose running requests have all started since the previous question. Otherwise a shard
//     with many short requests would never be idle.
//   - Shards that have only tunnels and event streams, because these end when their shard moves.
//
// Resumable WebSockets are handed over to the next owner, a batch with each question.
func (n *Node) idleInStage(q leaderloop.StageQuestion) leaderloop.IdleReport {
	m := n.router.State().Committed()
	legs, all := n.upstreamWebSockets() // upstream connections of resumable WebSockets, by shard and in total
	runs := n.proxy.LocalRuns()
	busy := n.busy(m)
	running, most := busy, minWebSocketBatch
	switch {
	case q.Held: // the shards move anyway, so all WebSockets may move now
		most = max(all, 1)
		running = func(s shardmap.Shard) int { return max(n.router.InFlight.Of(s)-runs[s].Endless, 0) }
	case q.Number > 0: // later questions move larger batches, so that all WebSockets have moved after some questions
		most = max(most, all/max(4-q.Number, 1)+1)
		running = func(s shardmap.Shard) int {
			x, count := runs[s], busy(s)
			// The count is higher if the app holds the shard (see appHolds), or if requests wait for a
			// connection to the app.
			if count <= legs[s]+x.Endless+len(x.Requests) && !n.agent.moveStages.ranBefore(x.Requests) {
				return legs[s]
			}
			return max(count-x.Endless, 0)
		}
	}
	idle := movableShards(m.Shards(n.self), running, legs, most)
	n.agent.moveStages.recordAnswer(m, n.self, idle, runs, q)
	return leaderloop.IdleReport{Map: uint64(m.Epoch()), Shards: idle}
}
