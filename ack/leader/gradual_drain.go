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
func (g *gradualDrains) assumeIdle(state *ack.State) {
	base, last, policy := state.Committed(), state.Proposed(), state.Policy()
	var idle map[shardmap.Shard]bool
	for _, move := range shardmap.Diff(base, last) {
		if move.From != "" && !policy.DrainsGradually(move.From) {
			setKey(&idle, move.Shard, true)
		}
	}
	for id, drain := range policy.GradualDrains {
		if !last.IsMember(id) || uint64(last.Epoch()) < drain.Index {
			continue
		}
		for shard := range base.Shards(id) {
			if _, pinned := policy.Pins[shard]; !pinned && last.Owner(shard) != id {
				setKey(&idle, shard, true)
			}
		}
	}
	g.setIdle(idle)
}

// drainsStarted forgets the idle shards of nodes whose gradual drain has just started.
func (g *gradualDrains) drainsStarted(before, after *ack.Policy, committed *shardmap.Map) {
	idle := maps.Clone(g.idle)
	maps.DeleteFunc(idle, func(shard shardmap.Shard, _ bool) bool {
		owner := committed.Owner(shard)
		return after.DrainsGradually(owner) && after.GradualDrains[owner] != before.GradualDrains[owner]
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
func (l *Leader) idleReported(now time.Duration, report IdleShards) {
	committed := l.state.Committed()
	if report.IsAnswer && l.ownRoundOpen() && !l.entryInFlight && report.MapEpoch == committed.Epoch() && l.stagedMoves.awaitingAnswer[report.Node] {
		l.busyReported(report)
		return
	}
	if l.state.HasOpenProposal() || report.MapEpoch != committed.Epoch() || report.IsAnswer && !l.stagedMoves.awaitingAnswer[report.Node] || !report.IsAnswer && (l.entryInFlight || !l.state.Policy().DrainsGradually(report.Node)) {
		return
	}
	if report.IsAnswer && !l.mayUseAnswer(now, report) {
		report.Shards = nil
	}
	idle := maps.Clone(l.gradualDrains.idle)
	maps.DeleteFunc(idle, func(shard shardmap.Shard, _ bool) bool { return committed.Owner(shard) == report.Node })
	for _, shard := range report.Shards {
		if int(shard) < committed.Len() && committed.Owner(shard) == report.Node {
			setKey(&idle, shard, true)
		}
	}
	l.gradualDrains.setIdle(idle)
}

// finishGradualDrains returns the changes that turn gradual drains into ordinary ones, because
// the node no longer owns a shard or the time is over.
func (l *Leader) finishGradualDrains(now time.Duration) []ack.Change {
	policy := l.state.Policy()
	if len(policy.GradualDrains) == 0 {
		return nil
	}
	firstSeen := map[shardmap.NodeID]firstSighting{}
	var changes []ack.Change
	for _, id := range slices.Sorted(maps.Keys(policy.GradualDrains)) {
		sighting := l.gradualDrains.firstSeen[id]
		if sighting.entryIndex != policy.GradualDrains[id].Index {
			sighting = firstSighting{entryIndex: policy.GradualDrains[id].Index, seenAt: now}
		}
		firstSeen[id] = sighting
		shards := l.state.Committed().ShardCount(id) + l.state.Proposed().ShardCount(id)
		if (shards == 0 || now-sighting.seenAt >= policy.GradualDrains[id].Duration) && len(changes) < ack.MaxChanges {
			changes = append(changes, ack.Change{Kind: ack.ChangeDrain, Node: id, ReleaseTimeout: policy.DrainOptions[id].ReleaseTimeout, SafeDrain: policy.DrainOptions[id].Safe})
		}
	}
	l.gradualDrains.firstSeen = firstSeen
	for _, change := range changes {
		setKey(&l.stagedMoves.overdueDrains, change.Node, true)
	}
	return changes
}
