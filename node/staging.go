package node

import (
	"context"
	"sync"

	"shardway/ack"
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

// givenUp remembers what ran for the shards that this node gives up, for the metric. busy is
// written by any goroutine, the other sets by the agent's alone.
type givenUp struct {
	mu   sync.Mutex
	busy map[shardmap.Shard]bool // as the leader was answered in this change
	held map[shardmap.Shard]bool // as the open round began
	cut  map[shardmap.Shard]bool
}

// answered notes which shards were busy when the leader asked. first: in a change that begins.
func (g *givenUp) answered(m *shardmap.Map, self shardmap.NodeID, idle []shardmap.Shard, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy == nil || first {
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

// idleInStage answers the leader's question in a staged change. Number is the number of
// questions before: from the second one on, shards are idle as well for which only tunnels and
// event streams run, because these end when their shard moves. Kept sockets hand over, some
// with each question.
func (n *Node) idleInStage(number int) idleThere {
	m := n.router.state.Load().Committed()
	legs, all := n.legs()
	most := leastHandsOver
	running := n.busy(m)
	if number > 0 {
		streams, busy := n.proxy.EndlessStreams(), running
		running = func(s shardmap.Shard) int { return max(busy(s)-streams[s], 0) }
		most = max(most, all/max(4-number, 1)+1)
	}
	idle := idleOf(m.Shards(n.self), running, legs, most)
	n.agent.givenUp.answered(m, n.self, idle, number == 0)
	return idleThere{Map: uint64(m.Epoch()), Shards: idle}
}

// askInStage asks a node which of its shards are idle, and tells the leader.
func (l *leadership) askInStage(ctx context.Context, q ack.AskIdle) {
	var at idleThere
	if q.Node == l.n.self {
		at = l.n.idleInStage(q.Number)
	} else {
		asking, cancel := context.WithTimeout(ctx, idleTimeout)
		defer cancel()
		if err := l.n.ask(asking, string(q.Node), request{What: askIdle, Question: q.Number + 1}, &at); err != nil {
			l.log.Debug().Err(err).Str("peer", string(q.Node)).Msg("idle shards not reported")
			return
		}
	}
	l.tell(ctx, ack.Idle{Node: q.Node, Map: shardmap.Epoch(at.Map), Shards: at.Shards})
}
