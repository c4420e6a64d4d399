package ack

import (
	"maps"
	"slices"
	"time"

	"shardway/shardmap"
)

// GradualDrain is a drain that moves idle shards first. A shard moves once its owner reports
// that no request runs for it. The remaining shards move after the duration For.
type GradualDrain struct {
	// For is the duration. Each leader measures it as Policy.Pause.
	For time.Duration
	// Since is the index of the entry that started the drain.
	Since uint64
}

// MaxGradualDrain is the longest gradual drain.
const MaxGradualDrain = 24 * time.Hour

// gradualDrains contains the data of a leader about gradual drains and idle shards.
type gradualDrains struct {
	firstSeen map[shardmap.NodeID]firstSighting
	// idle are the shards that their owners have reported as idle since the present map was
	// committed. While a round is open, they are the shards that the round moves. A new value
	// replaces the Go map, which is never modified. During an open round the set does not change,
	// even if an earlier leader began the round. A change would start another round, and the
	// requests for the same shards would wait longer.
	idle map[shardmap.Shard]bool
	// version counts the changes of idle.
	version uint64
}

// clear forgets all idle shards, because another map is committed and no node has reported for
// it yet.
func (g *gradualDrains) clear() {
	g.setIdle(nil)
}

// assumeIdle derives the idle shards from the open proposal, which an earlier leader may have
// made: the shards that it takes from a live owner were idle. A node with a gradual drain that
// remains a member may also have lost shards to pins, whether idle or not.
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

// drainsStarted forgets the idle shards of nodes whose gradual drain has just started.
func (g *gradualDrains) drainsStarted(was, is *Policy, m *shardmap.Map) {
	idle := maps.Clone(g.idle)
	maps.DeleteFunc(idle, func(s shardmap.Shard, _ bool) bool {
		owner := m.Owner(s)
		return is.drainsGradually(owner) && is.GradualDrains[owner] != was.GradualDrains[owner]
	})
	g.setIdle(idle)
}

// setIdle replaces the idle shards.
func (g *gradualDrains) setIdle(idle map[shardmap.Shard]bool) {
	if !maps.Equal(idle, g.idle) {
		g.idle = idle
		g.version++
	}
}

// idleReported applies a report of idle shards. It does not change the open round, or a
// proposal or commit that is being submitted. A proposal withdraws the question of a staged
// change, so an answer to an open question counts even while another entry is being submitted.
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

// finishGradualDrains returns the changes that turn gradual drains into ordinary ones, because
// the node no longer owns a shard or the time is over.
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

// drainsGradually reports whether a node has a gradual drain.
func (p *Policy) drainsGradually(id shardmap.NodeID) bool {
	_, yes := p.GradualDrains[id]
	return yes
}

// Leaves reports whether a node will own nothing, now or at the end of a gradual drain.
func (p *Policy) Leaves(id shardmap.NodeID) bool { return p.Drained[id] || p.drainsGradually(id) }

// gradualDrains writes the gradual drains in the order of the nodes.
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
