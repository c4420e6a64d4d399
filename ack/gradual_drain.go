package ack

import (
	"maps"
	"slices"
	"time"

	"shardway/shardmap"
)

// Emptying is a drain that begins with what is idle: a shard moves once its owner says
// that nothing runs for it, and the rest when the time is over.
type GradualDrain struct {
	// For is counted by each leader as Policy.Pause is.
	For time.Duration
	// Since is the index of the entry that asked for it.
	Since uint64
}

// MaxGradualDrain is the longest one.
const MaxGradualDrain = 24 * time.Hour

// empties is what a leader knows of nodes that are being emptied.
type gradualDrains struct {
	firstSeen map[shardmap.NodeID]firstSighting
	// idle are the shards that their owners have said to be, since the map that routes
	// was committed, or, while a round is open, what that takes from them; it is replaced,
	// never changed. A round goes by what it began with, whoever began it: each change
	// would begin another one, and hold what the first holds for longer.
	idle map[shardmap.Shard]bool
	// looks counts the changes of idle.
	version uint64
}

// forget goes by another map, of which nobody has said anything.
func (g *gradualDrains) clear() {
	g.setIdle(nil)
}

// goOn goes by the round that is open, of this leader or of one before it, which it has
// been told of by the log alone: what that takes from a live owner was idle. From a node that
// was being emptied, and stays a member, pins take shards whatever runs there.
func (g *gradualDrains) assumeIdle(s *State) {
	base, last, p := s.Committed(), s.Last(), s.Policy()
	var idle map[shardmap.Shard]bool
	for _, m := range shardmap.Diff(base, last) {
		if m.From != "" && !p.drainsGradually(m.From) {
			setKey(&idle, m.Shard, true)
		}
	}
	for id, asked := range p.GradualDrains {
		if !last.Has(id) || uint64(last.Epoch()) < asked.Since {
			continue
		}
		for shard := range base.Shards(id) {
			if _, pinned := p.Pins[shard]; !pinned && last.Owner(shard) != id {
				setKey(&idle, shard, true)
			}
		}
	}
	g.setIdle(idle)
}

// begin forgets what was idle at nodes that are being emptied from now on.
func (g *gradualDrains) drainsStarted(was, is *Policy, m *shardmap.Map) {
	idle := maps.Clone(g.idle)
	maps.DeleteFunc(idle, func(s shardmap.Shard, _ bool) bool {
		owner := m.Owner(s)
		return is.drainsGradually(owner) && is.GradualDrains[owner] != was.GradualDrains[owner]
	})
	g.setIdle(idle)
}

// know replaces what is idle.
func (g *gradualDrains) setIdle(idle map[shardmap.Shard]bool) {
	if !maps.Equal(idle, g.idle) {
		g.idle = idle
		g.version++
	}
}

// idleAt takes a node's report of idle shards. The open round, and a proposal or commit on its
// way into the log, do not change with it. A proposal withdraws the question of a staged change,
// so the answer to an open question counts, whatever other entry is on its way.
func (l *Leader) idleReported(now time.Duration, m IdleShards) {
	c := l.state.Committed()
	if m.Staged && l.ownRoundOpen() && !l.submitting && m.Map == c.Epoch() && l.stages.unanswered[m.Node] {
		l.busyReported(m)
		return
	}
	if l.state.Open() || m.Map != c.Epoch() || m.Staged && !l.stages.unanswered[m.Node] || !m.Staged && (l.submitting || !l.state.Policy().drainsGradually(m.Node)) {
		return
	}
	if m.Staged && !l.mayUseAnswer(now, m) {
		m.Shards = nil
	}
	idle := maps.Clone(l.gradual.idle)
	maps.DeleteFunc(idle, func(s shardmap.Shard, _ bool) bool { return c.Owner(s) == m.Node })
	for _, s := range m.Shards {
		if int(s) < c.Len() && c.Owner(s) == m.Node {
			setKey(&idle, s, true)
		}
	}
	l.gradual.setIdle(idle)
}

// emptied returns the changes by which nodes that are being emptied become drained: those
// that own nothing any more, and those whose time is over.
func (l *Leader) finishGradualDrains(now time.Duration) []Change {
	p := l.state.Policy()
	if len(p.GradualDrains) == 0 {
		return nil
	}
	seen := map[shardmap.NodeID]firstSighting{}
	var over []Change
	for _, id := range slices.Sorted(maps.Keys(p.GradualDrains)) {
		s := l.gradual.firstSeen[id]
		if s.since != p.GradualDrains[id].Since {
			s = firstSighting{since: p.GradualDrains[id].Since, at: now}
		}
		seen[id] = s
		owns := l.state.Committed().Count(id) + l.state.Last().Count(id)
		if (owns == 0 || now-s.at >= p.GradualDrains[id].For) && len(over) < maxChanges {
			over = append(over, Change{Kind: ChangeDrain, Node: id, Release: p.Terms[id].Release, Safe: p.Terms[id].Safe})
		}
	}
	l.gradual.firstSeen = seen
	for _, c := range over {
		setKey(&l.stages.overdueDrains, c.Node, true)
	}
	return over
}

// empties reports whether a node is being emptied.
func (p *Policy) drainsGradually(id shardmap.NodeID) bool {
	_, yes := p.GradualDrains[id]
	return yes
}

// Leaves reports whether a node is to own nothing, now or in the end.
func (p *Policy) Leaves(id shardmap.NodeID) bool { return p.Drained[id] || p.drainsGradually(id) }

// emptied writes the nodes that are being emptied in order.
func (w *writer) gradualDrains(all map[shardmap.NodeID]GradualDrain) {
	w.uint(uint64(len(all)))
	for _, id := range slices.Sorted(maps.Keys(all)) {
		w.text(string(id))
		w.uint(uint64(all[id].For))
		w.uint(all[id].Since)
	}
}

func (r *reader) gradualDrains() map[shardmap.NodeID]GradualDrain {
	return readSorted(r, r.node, func() GradualDrain {
		return GradualDrain{For: r.duration(MaxGradualDrain), Since: r.uint(1, maxUint)}
	})
}
