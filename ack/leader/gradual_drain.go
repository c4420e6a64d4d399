package leader

import (
	"maps"
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

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
func (g *gradualDrains) assumeIdle(s *ack.State) {
	base, last, p := s.Committed(), s.Proposed(), s.Policy()
	var idle map[shardmap.Shard]bool
	for _, m := range shardmap.Diff(base, last) {
		if m.From != "" && !p.DrainsGradually(m.From) {
			setKey(&idle, m.Shard, true)
		}
	}
	for id, asked := range p.GradualDrains {
		if !last.Has(id) || uint64(last.Epoch()) < asked.Index {
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
func (g *gradualDrains) drainsStarted(was, is *ack.Policy, m *shardmap.Map) {
	idle := maps.Clone(g.idle)
	maps.DeleteFunc(idle, func(s shardmap.Shard, _ bool) bool {
		owner := m.Owner(s)
		return is.DrainsGradually(owner) && is.GradualDrains[owner] != was.GradualDrains[owner]
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
// change, so a response to an open question counts even while another entry is being submitted.
func (l *Leader) idleReported(now time.Duration, m IdleShards) {
	c := l.state.Committed()
	if m.IsAnswer && l.ownRoundOpen() && !l.entryInFlight && m.MapEpoch == c.Epoch() && l.stagedMoves.awaitingAnswer[m.Node] {
		l.busyReported(m)
		return
	}
	if l.state.HasOpenProposal() || m.MapEpoch != c.Epoch() || m.IsAnswer && !l.stagedMoves.awaitingAnswer[m.Node] || !m.IsAnswer && (l.entryInFlight || !l.state.Policy().DrainsGradually(m.Node)) {
		return
	}
	if m.IsAnswer && !l.mayUseAnswer(now, m) {
		m.Shards = nil
	}
	idle := maps.Clone(l.gradualDrains.idle)
	maps.DeleteFunc(idle, func(s shardmap.Shard, _ bool) bool { return c.Owner(s) == m.Node })
	for _, s := range m.Shards {
		if int(s) < c.Len() && c.Owner(s) == m.Node {
			setKey(&idle, s, true)
		}
	}
	l.gradualDrains.setIdle(idle)
}

// finishGradualDrains returns the changes that turn gradual drains into ordinary ones, because
// the node no longer owns a shard or the time is over.
func (l *Leader) finishGradualDrains(now time.Duration) []ack.Change {
	p := l.state.Policy()
	if len(p.GradualDrains) == 0 {
		return nil
	}
	seen := map[shardmap.NodeID]firstSighting{}
	var over []ack.Change
	for _, id := range slices.Sorted(maps.Keys(p.GradualDrains)) {
		s := l.gradualDrains.firstSeen[id]
		if s.entryIndex != p.GradualDrains[id].Index {
			s = firstSighting{entryIndex: p.GradualDrains[id].Index, seenAt: now}
		}
		seen[id] = s
		owns := l.state.Committed().Count(id) + l.state.Proposed().Count(id)
		if (owns == 0 || now-s.seenAt >= p.GradualDrains[id].Duration) && len(over) < ack.MaxChanges {
			over = append(over, ack.Change{Kind: ack.ChangeDrain, Node: id, ReleaseTimeout: p.DrainOptions[id].ReleaseTimeout, SafeDrain: p.DrainOptions[id].Safe})
		}
	}
	l.gradualDrains.firstSeen = seen
	for _, c := range over {
		setKey(&l.stagedMoves.overdueDrains, c.Node, true)
	}
	return over
}
