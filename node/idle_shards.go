package node

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

const (
	// idleLook is how often a leader asks the nodes that are being emptied what is idle
	// there, and idleTimeout how long one has to tell. A round of what is idle takes some
	// tens of milliseconds.
	idlePollEvery = 250 * time.Millisecond
	idleTimeout   = 2 * time.Second
	// leastHandsOver is how many kept sockets move at a time at least, while there are so many.
	minWebSocketBatch = 16
)

// takesNew reports whether a node, "" for this one, may get keys that are made for new sessions:
// it is neither draining nor cordoned.
func (n *Node) acceptsNewKeys(node string) bool {
	id := shardmap.NodeID(node)
	if node == "" || id == n.self {
		if id = n.self; n.agent.leaving.Load() {
			return false
		}
	}
	p := n.fsm.state.Load().Policy()
	return !p.Leaves(id) && !p.Cordoned[id]
}

// idleThere is what a node tells of its shards for which nothing runs at its app that a move
// would cut or wait for, by the map that it goes by.
type idleReport struct {
	Map    uint64           `json:"map"`
	Shards []shardmap.Shard `json:"shards"`
}

// idle returns the shards of this node for which nothing runs and which the app does not hold
// (appHolds), or kept sockets alone: those hand over. Each hand-over wakes three processes, so
// they go some at a time.
func (n *Node) idleShards() idleReport {
	state := n.router.state.Load()
	m := state.Committed()
	webSockets, total := n.upstreamWebSockets()
	return idleReport{Map: uint64(m.Epoch()), Shards: movableShards(m.Shards(n.self), n.busy(m), webSockets, n.webSocketPacer.nextBatch(time.Now(), total, state.Policy().GradualDrains[n.self]))}
}

// legs counts the legs of kept sockets, by shard and in all.
func (n *Node) upstreamWebSockets() (byShard map[shardmap.Shard]int, total int) {
	byShard = map[shardmap.Shard]int{}
	for _, x := range n.proxy.KeptSockets() {
		byShard[x.Shard] = x.Legs
		total += x.Legs
	}
	return byShard, total
}

// idleOf returns those of shards for which nothing runs, and of those that only have legs of
// kept sockets the ones with fewest: with most legs together, or one shard that has more.
func movableShards(shards iter.Seq[shardmap.Shard], running func(shardmap.Shard) int, webSockets map[shardmap.Shard]int, batch int) []shardmap.Shard {
	idle := []shardmap.Shard{}
	var resumable []shardmap.Shard
	for s := range shards {
		switch running(s) {
		case 0:
			idle = append(idle, s)
		case webSockets[s]:
			resumable = append(resumable, s)
		}
	}
	slices.SortStableFunc(resumable, func(a, b shardmap.Shard) int { return cmp.Compare(webSockets[a], webSockets[b]) })
	if batch <= 0 {
		return idle
	}
	for i, s := range resumable {
		if batch -= webSockets[s]; batch < 0 && i > 0 {
			break
		}
		idle = append(idle, s)
	}
	return idle
}

// pacing spreads the hand-overs of a node's kept sockets over the time in which it is to be
// emptied, however far apart it is asked: rounds last as long as apps take. Zero is ready for
// use.
type webSocketPacer struct {
	mu                 sync.Mutex
	drainSince         uint64 // what it is being emptied by
	started, lastBatch time.Time
}

// next returns how many sockets, of all there are, hand over now.
func (p *webSocketPacer) nextBatch(now time.Time, total int, drain ack.GradualDrain) int {
	if drain.Since == 0 {
		return 0 // this node does not know yet that it is to be emptied
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drainSince != drain.Since {
		p.drainSince, p.started, p.lastBatch = drain.Since, now, now.Add(-idlePollEvery)
	}
	step := now.Sub(p.lastBatch)
	p.lastBatch = now
	remaining := drain.For*3/4 - now.Sub(p.started) // the rest is for those that were busy as it was their turn
	if remaining <= step {
		return total
	}
	return max(minWebSocketBatch, int(math.Ceil(float64(total)*float64(step)/float64(remaining))))
}

// watchIdle asks the nodes that are being emptied what is idle there, until ctx ends.
func (l *leadership) pollIdle(ctx context.Context) {
	t := l.n.pulse.Every(idlePollEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		s := l.n.fsm.state.Load()
		if s.Open() {
			continue // it goes by what it began with
		}
		l.collectIdle(ctx, slices.Sorted(maps.Keys(s.Policy().GradualDrains))...)
	}
}

// askIdle asks nodes, and tells the leader of all that answer together: what one says begins
// a round, which does not go by what comes later.
func (l *leadership) collectIdle(ctx context.Context, nodes ...shardmap.NodeID) {
	reports := make([]*ack.IdleShards, len(nodes))
	var wg sync.WaitGroup
	for i, id := range nodes {
		wg.Go(func() { reports[i] = l.fetchIdle(ctx, id) })
	}
	wg.Wait()
	for _, m := range reports {
		if m != nil {
			l.tell(ctx, *m)
		}
	}
}

// idleOf returns what a node says to be idle there; nil: nothing.
func (l *leadership) fetchIdle(ctx context.Context, id shardmap.NodeID) *ack.IdleShards {
	var report idleReport
	if id == l.n.self {
		report = l.n.idleShards()
	} else {
		reqCtx, cancel := context.WithTimeout(ctx, idleTimeout)
		defer cancel()
		if err := l.n.ask(reqCtx, string(id), request{What: askIdle}, &report); err != nil {
			l.log.Debug().Err(err).Str("peer", string(id)).Msg("node did not report idle shards")
			return nil
		}
	}
	return &ack.IdleShards{Node: id, Map: shardmap.Epoch(report.Map), Shards: report.Shards}
}
