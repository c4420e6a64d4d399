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
	idleLook    = 250 * time.Millisecond
	idleTimeout = 2 * time.Second
	// leastHandsOver is how many kept sockets move at a time at least, while there are so many.
	leastHandsOver = 16
)

// takesNew reports whether a node, "" for this one, may get keys that are made for new sessions:
// it is neither draining nor cordoned.
func (n *Node) takesNew(node string) bool {
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
type idleThere struct {
	Map    uint64           `json:"map"`
	Shards []shardmap.Shard `json:"shards"`
}

// idle returns the shards of this node for which nothing runs and which the app does not hold
// (appHolds), or kept sockets alone: those hand over. Each hand-over wakes three processes, so
// they go some at a time.
func (n *Node) idle() idleThere {
	state := n.router.state.Load()
	m := state.Committed()
	legs, all := n.legs()
	return idleThere{Map: uint64(m.Epoch()), Shards: idleOf(m.Shards(n.self), n.busy(m), legs, n.pacing.next(time.Now(), all, state.Policy().GradualDrains[n.self]))}
}

// legs counts the legs of kept sockets, by shard and in all.
func (n *Node) legs() (legs map[shardmap.Shard]int, all int) {
	legs = map[shardmap.Shard]int{}
	for _, x := range n.proxy.KeptSockets() {
		legs[x.Shard] = x.Legs
		all += x.Legs
	}
	return legs, all
}

// idleOf returns those of shards for which nothing runs, and of those that only have legs of
// kept sockets the ones with fewest: with most legs together, or one shard that has more.
func idleOf(shards iter.Seq[shardmap.Shard], running func(shardmap.Shard) int, legs map[shardmap.Shard]int, most int) []shardmap.Shard {
	idle := []shardmap.Shard{}
	var kept []shardmap.Shard
	for s := range shards {
		switch running(s) {
		case 0:
			idle = append(idle, s)
		case legs[s]:
			kept = append(kept, s)
		}
	}
	slices.SortStableFunc(kept, func(a, b shardmap.Shard) int { return cmp.Compare(legs[a], legs[b]) })
	if most <= 0 {
		return idle
	}
	for i, s := range kept {
		if most -= legs[s]; most < 0 && i > 0 {
			break
		}
		idle = append(idle, s)
	}
	return idle
}

// pacing spreads the hand-overs of a node's kept sockets over the time in which it is to be
// emptied, however far apart it is asked: rounds last as long as apps take. Zero is ready for
// use.
type pacing struct {
	mu          sync.Mutex
	since       uint64 // what it is being emptied by
	began, last time.Time
}

// next returns how many sockets, of all there are, hand over now.
func (p *pacing) next(now time.Time, all int, by ack.GradualDrain) int {
	if by.Since == 0 {
		return 0 // this node does not know yet that it is to be emptied
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since != by.Since {
		p.since, p.began, p.last = by.Since, now, now.Add(-idleLook)
	}
	step := now.Sub(p.last)
	p.last = now
	left := by.For*3/4 - now.Sub(p.began) // the rest is for those that were busy as it was their turn
	if left <= step {
		return all
	}
	return max(leastHandsOver, int(math.Ceil(float64(all)*float64(step)/float64(left))))
}

// watchIdle asks the nodes that are being emptied what is idle there, until ctx ends.
func (l *leadership) watchIdle(ctx context.Context) {
	t := l.n.pulse.Every(idleLook)
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
		l.askIdle(ctx, slices.Sorted(maps.Keys(s.Policy().GradualDrains))...)
	}
}

// askIdle asks nodes, and tells the leader of all that answer together: what one says begins
// a round, which does not go by what comes later.
func (l *leadership) askIdle(ctx context.Context, nodes ...shardmap.NodeID) {
	told := make([]*ack.IdleShards, len(nodes))
	var wg sync.WaitGroup
	for i, id := range nodes {
		wg.Go(func() { told[i] = l.idleOf(ctx, id) })
	}
	wg.Wait()
	for _, m := range told {
		if m != nil {
			l.tell(ctx, *m)
		}
	}
}

// idleOf returns what a node says to be idle there; nil: nothing.
func (l *leadership) idleOf(ctx context.Context, id shardmap.NodeID) *ack.IdleShards {
	var at idleThere
	if id == l.n.self {
		at = l.n.idle()
	} else {
		asking, cancel := context.WithTimeout(ctx, idleTimeout)
		defer cancel()
		if err := l.n.ask(asking, string(id), request{What: askIdle}, &at); err != nil {
			l.log.Debug().Err(err).Str("peer", string(id)).Msg("node did not report idle shards")
			return nil
		}
	}
	return &ack.IdleShards{Node: id, Map: shardmap.Epoch(at.Map), Shards: at.Shards}
}
