package leader

import (
	"maps"

	"shardway/ack"
	"shardway/shardmap"
)

// idleShards are the shards without requests, so they move first.
type idleShards struct {
	// shards are the shards that their owners have reported as idle since the present map was
	// committed. While a round is open, they are the shards that the round moves. A new value
	// replaces the Go map, which is never modified. During an open round the set does not change,
	// even if an earlier leader began the round. A change would start another round, and the
	// requests for the same shards would wait longer.
	shards map[shardmap.Shard]bool
	// version counts the changes of shards.
	version uint64
}

// set replaces the idle shards.
func (s *idleShards) set(shards map[shardmap.Shard]bool) {
	if !maps.Equal(shards, s.shards) {
		s.shards = shards
		s.version++
	}
}

// clear forgets all idle shards, because another map is committed and no node has reported for
// it yet.
func (s *idleShards) clear() {
	s.set(nil)
}

// deriveFromProposal derives the idle shards from the open proposal, which an earlier leader may
// have made: the shards that it takes from a live owner were idle. A node with a gradual drain that
// remains a member may also have lost shards to pins, whether idle or not.
func (s *idleShards) deriveFromProposal(state *ack.State) {
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
	s.set(idle)
}

// drainsStarted forgets the idle shards of nodes whose gradual drain has just started.
func (s *idleShards) drainsStarted(before, after *ack.Policy, committed *shardmap.Map) {
	s.remove(func(shard shardmap.Shard) bool {
		owner := committed.Owner(shard)
		return after.DrainsGradually(owner) && after.GradualDrains[owner] != before.GradualDrains[owner]
	})
}

// remove removes the shards for which matches returns true.
func (s *idleShards) remove(matches func(shardmap.Shard) bool) {
	idle := maps.Clone(s.shards)
	maps.DeleteFunc(idle, func(shard shardmap.Shard, _ bool) bool { return matches(shard) })
	s.set(idle)
}

// replace replaces the idle shards of the owner.
func (s *idleShards) replace(committed *shardmap.Map, owner shardmap.NodeID, reported []shardmap.Shard) {
	idle := maps.Clone(s.shards)
	maps.DeleteFunc(idle, func(shard shardmap.Shard, _ bool) bool { return committed.Owner(shard) == owner })
	for _, shard := range reported {
		if int(shard) < committed.Len() && committed.Owner(shard) == owner {
			setKey(&idle, shard, true)
		}
	}
	s.set(idle)
}

// retain removes the shards of the owner that are not in reported: they are busy.
func (s *idleShards) retain(committed *shardmap.Map, owner shardmap.NodeID, reported []shardmap.Shard) {
	isIdle := shardSetOf(reported)
	s.remove(func(shard shardmap.Shard) bool { return committed.Owner(shard) == owner && !isIdle[shard] })
}

// addAll adds all shards of the owners.
func (s *idleShards) addAll(committed *shardmap.Map, owners []shardmap.NodeID) {
	idle := maps.Clone(s.shards)
	for _, owner := range owners {
		for shard := range committed.Shards(owner) {
			setKey(&idle, shard, true)
		}
	}
	s.set(idle)
}

// forget removes the idle shards of the owners, except of nodes under a gradual drain, which report
// continuously. The answer of another owner becomes outdated: a later change that cannot wait for
// a question would move shards for which requests have begun since.
func (s *idleShards) forget(state *ack.State, owners map[shardmap.NodeID]bool) {
	if len(s.shards) == 0 || len(owners) == 0 {
		return
	}
	committed, policy := state.Committed(), state.Policy()
	isOutdated := func(shard shardmap.Shard) bool {
		owner := committed.Owner(shard)
		return owners[owner] && !policy.DrainsGradually(owner)
	}
	for shard := range s.shards {
		if isOutdated(shard) {
			s.remove(isOutdated)
			return
		}
	}
}

func shardSetOf(shards []shardmap.Shard) map[shardmap.Shard]bool {
	set := make(map[shardmap.Shard]bool, len(shards))
	for _, shard := range shards {
		set[shard] = true
	}
	return set
}
