package node

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"shardway/ack"
	"shardway/node/control"
	"shardway/proxy"
	"shardway/shardmap"
)

// The stages in which a shard moves by plan, as shardway_moved_shards_total names them.
const (
	// stageIdle: nothing ran for the shard.
	stageIdle = "idle"
	// stageFinished: its requests ended before it moved, or while it was held.
	stageFinished = "finished"
	// stageAborted: some of its requests were cut at drain-timeout.
	stageAborted = "aborted"
)

// givenUp remembers what ran for the shards that this node gives up. mu protects busy and ran,
// which any goroutine uses; the agent's alone uses the other sets.
type givenUp struct {
	mu   sync.Mutex
	busy map[shardmap.Shard]bool // as the leader was answered in this change
	ran  map[proxy.Run]bool      // when the leader asked last
	held map[shardmap.Shard]bool // as the open round began
	cut  map[shardmap.Shard]bool
}

// answered notes which shards were busy when the leader asked, and what ran. The first question
// begins a change.
func (g *givenUp) answered(m *shardmap.Map, self shardmap.NodeID, idle []shardmap.Shard, runs map[shardmap.Shard]proxy.ShardRuns, q stageQuestion) {
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

// lasts reports that one of these requests ran already when the leader asked before.
func (g *givenUp) lasts(runs []proxy.Run) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(runs, func(r proxy.Run) bool { return g.ran[r] })
}

// holds notes what runs for the shards that a proposal takes from this node.
func (g *givenUp) holds(s *ack.State, self shardmap.NodeID, running func(shardmap.Shard) int) {
	g.held, g.cut = map[shardmap.Shard]bool{}, map[shardmap.Shard]bool{}
	for x := range s.Committed().Shards(self) {
		if s.Last().Owner(x) != self && running(x) > 0 {
			g.held[x] = true
		}
	}
}

// cuts notes that the requests of shards are cut which the open proposal takes.
func (g *givenUp) cuts(may func(shardmap.Shard) bool, running func(shardmap.Shard) int) {
	for x := range g.held {
		if !may(x) && running(x) > 0 {
			g.cut[x] = true
		}
	}
}

// moved returns the stage in which a shard moved that this node has just given up.
func (g *givenUp) moved(s shardmap.Shard) string {
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

// idleInStage answers the leader's question in a staged change. From the second question on,
// shards are idle as well whose running requests have all begun since the question before, so
// that a shard with many short requests moves, too; and shards for which only tunnels and event
// streams run, because these end when their shard moves. Kept sockets hand over, some with each
// question.
func (n *Node) idleInStage(q stageQuestion) idleReport {
	m := n.router.state.Load().Committed()
	legs, all := n.upstreamWebSockets()
	runs := n.proxy.LocalRuns()
	busy := n.busy(m)
	running, most := busy, minWebSocketBatch
	switch {
	case q.Held:
		most = max(all, 1)
		running = func(s shardmap.Shard) int { return max(n.router.running.of(s)-runs[s].Endless, 0) }
	case q.Number > 0:
		most = max(most, all/max(4-q.Number, 1)+1)
		running = func(s shardmap.Shard) int {
			x, count := runs[s], busy(s)
			// More are counted if the app holds the shard, or requests wait for an app connection.
			if count <= legs[s]+x.Endless+len(x.Requests) && !n.agent.givenUp.lasts(x.Requests) {
				return legs[s]
			}
			return max(count-x.Endless, 0)
		}
	}
	idle := movableShards(m.Shards(n.self), running, legs, most)
	n.agent.givenUp.answered(m, n.self, idle, runs, q)
	return idleReport{Map: uint64(m.Epoch()), Shards: idle}
}

// stageQuestion is the leader's question in a staged change.
type stageQuestion struct {
	// Number is the number of questions before.
	Number int `json:"number,omitempty"`
	// Held: the question is about the shards that the open round takes.
	Held bool `json:"held,omitempty"`
}

// askInStage asks a node which of its shards are idle, and tells the leader.
func (l *leadership) askInStage(ctx context.Context, q ack.AskIdle) {
	question := stageQuestion{Number: q.Number, Held: q.Held}
	var at idleReport
	if q.Node == l.n.self {
		at = l.n.idleInStage(question)
	} else {
		asking, cancel := context.WithTimeout(ctx, idleTimeout)
		defer cancel()
		b, err := json.Marshal(question)
		if err == nil {
			err = l.n.client.Call(asking, string(q.Node), control.Request{Kind: control.Idle, Question: b}, &at)
		}
		if err != nil {
			l.log.Debug().Err(err).Str("peer", string(q.Node)).Msg("idle shards not reported")
			return
		}
	}
	l.tell(ctx, ack.IdleShards{Node: q.Node, Map: shardmap.Epoch(at.Map), Shards: at.Shards, Staged: true})
}
