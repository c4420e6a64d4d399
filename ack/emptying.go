package ack

import (
	"maps"
	"slices"
	"time"

	"shardway/shardmap"
)

// Emptying is a drain that begins with what is idle: a shard moves once its owner says
// that nothing runs for it, and the rest when the time is over.
type Emptying struct {
	// For is counted by each leader as Policy.Pause is.
	For time.Duration
	// Since is the index of the entry that asked for it.
	Since uint64
}

// MaxEmptying is the longest one.
const MaxEmptying = 24 * time.Hour

// empties is what a leader knows of nodes that are being emptied.
type empties struct {
	seen map[shardmap.NodeID]sighting
	// idle are the shards that their owners have said to be, since the map that routes
	// was committed, or, while a round is open, what that takes from them; it is replaced,
	// never changed. A round goes by what it began with, whoever began it: each change
	// would begin another one, and hold what the first holds for longer.
	idle map[shardmap.Shard]bool
	// looks counts the changes of idle.
	looks uint64
}

// forget goes by another map, of which nobody has said anything.
func (e *empties) forget() {
	e.know(nil)
}

// goOn goes by the round that is open, of this leader or of one before it, which it has
// been told of by the log alone: what that takes from a live owner was idle. From a node that
// was being emptied, and stays a member, pins take shards whatever runs there.
func (e *empties) goOn(s *State) {
	base, last, p := s.Committed(), s.Last(), s.Policy()
	var idle map[shardmap.Shard]bool
	for _, m := range shardmap.Diff(base, last) {
		if m.From != "" && !p.empties(m.From) {
			put(&idle, m.Shard, true)
		}
	}
	for id, asked := range p.Emptying {
		if !last.Has(id) || uint64(last.Epoch()) < asked.Since {
			continue
		}
		for shard := range base.Shards(id) {
			if _, pinned := p.Pins[shard]; !pinned && last.Owner(shard) != id {
				put(&idle, shard, true)
			}
		}
	}
	e.know(idle)
}

// begin forgets what was idle at nodes that are being emptied from now on.
func (e *empties) begin(was, is *Policy, m *shardmap.Map) {
	idle := maps.Clone(e.idle)
	maps.DeleteFunc(idle, func(s shardmap.Shard, _ bool) bool {
		owner := m.Owner(s)
		return is.empties(owner) && is.Emptying[owner] != was.Emptying[owner]
	})
	e.know(idle)
}

// know replaces what is idle.
func (e *empties) know(idle map[shardmap.Shard]bool) {
	if !maps.Equal(idle, e.idle) {
		e.idle = idle
		e.looks++
	}
}

// idleAt takes a node's report of idle shards. The open round, and a proposal or commit on its
// way into the log, do not change with it. A proposal withdraws the question of a staged change,
// so the answer to an open question counts, whatever other entry is on its way.
func (l *Leader) idleAt(now time.Duration, m Idle) {
	c := l.state.Committed()
	if m.Staged && l.mine() && !l.submitting && m.Map == c.Epoch() && l.stages.unanswered[m.Node] {
		l.stillRuns(m)
		return
	}
	if l.state.Open() || m.Map != c.Epoch() || m.Staged && !l.stages.unanswered[m.Node] || !m.Staged && (l.submitting || !l.state.Policy().empties(m.Node)) {
		return
	}
	if m.Staged && !l.answered(now, m) {
		m.Shards = nil
	}
	idle := maps.Clone(l.empties.idle)
	maps.DeleteFunc(idle, func(s shardmap.Shard, _ bool) bool { return c.Owner(s) == m.Node })
	for _, s := range m.Shards {
		if int(s) < c.Len() && c.Owner(s) == m.Node {
			put(&idle, s, true)
		}
	}
	l.empties.know(idle)
}

// emptied returns the changes by which nodes that are being emptied become drained: those
// that own nothing any more, and those whose time is over.
func (l *Leader) emptied(now time.Duration) []Change {
	p := l.state.Policy()
	if len(p.Emptying) == 0 {
		return nil
	}
	seen := map[shardmap.NodeID]sighting{}
	var over []Change
	for _, id := range slices.Sorted(maps.Keys(p.Emptying)) {
		s := l.empties.seen[id]
		if s.since != p.Emptying[id].Since {
			s = sighting{since: p.Emptying[id].Since, at: now}
		}
		seen[id] = s
		owns := l.state.Committed().Count(id) + l.state.Last().Count(id)
		if (owns == 0 || now-s.at >= p.Emptying[id].For) && len(over) < maxChanges {
			over = append(over, Change{Kind: ChangeDrain, Node: id, Release: p.Terms[id].Release, Safe: p.Terms[id].Safe})
		}
	}
	l.empties.seen = seen
	for _, c := range over {
		put(&l.stages.due, c.Node, true)
	}
	return over
}

// empties reports whether a node is being emptied.
func (p *Policy) empties(id shardmap.NodeID) bool {
	_, yes := p.Emptying[id]
	return yes
}

// Leaves reports whether a node is to own nothing, now or in the end.
func (p *Policy) Leaves(id shardmap.NodeID) bool { return p.Drained[id] || p.empties(id) }

// emptied writes the nodes that are being emptied in order.
func (w *writer) emptied(all map[shardmap.NodeID]Emptying) {
	w.uint(uint64(len(all)))
	for _, id := range slices.Sorted(maps.Keys(all)) {
		w.text(string(id))
		w.uint(uint64(all[id].For))
		w.uint(all[id].Since)
	}
}

func (r *reader) emptied() map[shardmap.NodeID]Emptying {
	return sorted(r, r.node, func() Emptying {
		return Emptying{For: r.span(MaxEmptying), Since: r.uint(1, maxUint)}
	})
}
