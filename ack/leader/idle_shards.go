package leader

import (
	"maps"

	"shardway/ack"
	"shardway/shardmap"
)

// idleShards are the shards without requests, so they move first.
type idleShards struct {
	// shards are the shards that their owners have reported as idle since the current map was
	// committed. While a round is open, they are the shards that the round moves. A new value
	// replaces the Go map, which is never modified. During an open round the set does not change,
	// even if an earlier leader began the round. A change would start another round, and the
	// requests for the same shards would wait longer.
	shards map[shardmap.Shard]bool
	// version counts the changes of shards.
	version uint64
}

// set replaces the idle shards.
func (is *idleShards) set(shards map[shardmap.Shard]bool) {
	if !maps.Equal(shards, is.shards) {
		is.shards = shards
		is.version++
	}
}

// clear forgets all idle shards, because a new map is committed and no node has reported for it
// yet.
func (is *idleShards) clear() {
	is.set(nil)
}

// deriveFromProposal derives the idle shards from the open proposal, which an earlier leader may
// have made: the shards that it takes from a live owner were idle.
func (is *idleShards) deriveFromProposal(state *ack.State) {
	policy := state.Policy()
	var idle map[shardmap.Shard]bool
	for _, move := range shardmap.Diff(state.Committed(), state.Proposed()) {
		wasIdle := move.From != "" && !policy.DrainsGradually(move.From)
		if wasIdle || isGradualMove(state, move) {
			setKey(&idle, move.Shard, true)
		}
	}
	is.set(idle)
}

// isGradualMove reports whether the open proposal moves the shard because of a gradual drain, which
// moves only idle shards. The node may also have lost the shard for another reason: because it is
// no longer a member, to a sibling of a failed instance, to a pin, or by a proposal from before the drain.
func isGradualMove(state *ack.State, move shardmap.Move) bool {
	proposed, policy := state.Proposed(), state.Policy()
	drain, isDraining := policy.GradualDrains[move.From]
	if !isDraining || move.IsWithinNode() || !proposed.IsMember(move.From) || uint64(proposed.Epoch()) < drain.Index {
		return false
	}
	_, isPinned := policy.Pins[move.Shard]
	return !isPinned
}

// drainsStarted forgets the idle shards of nodes whose gradual drain has just started.
func (is *idleShards) drainsStarted(before, after *ack.Policy, committed *shardmap.Map) {
	is.removeMatching(func(shard shardmap.Shard) bool {
		owner := committed.Owner(shard)
		return after.DrainsGradually(owner) && after.GradualDrains[owner] != before.GradualDrains[owner]
	})
}

// removeMatching removes the shards for which matches returns true.
func (is *idleShards) removeMatching(matches func(shardmap.Shard) bool) {
	idle := maps.Clone(is.shards)
	maps.DeleteFunc(idle, func(shard shardmap.Shard, _ bool) bool { return matches(shard) })
	is.set(idle)
}

// replaceOwned replaces the idle shards of the owner with those that it has reported.
func (is *idleShards) replaceOwned(committed *shardmap.Map, owner shardmap.NodeID, reported []shardmap.Shard) {
	idle := maps.Clone(is.shards)
	maps.DeleteFunc(idle, func(shard shardmap.Shard, _ bool) bool { return committed.Owner(shard) == owner })
	for _, shard := range reported {
		if int(shard) < committed.Len() && committed.Owner(shard) == owner {
			setKey(&idle, shard, true)
		}
	}
	is.set(idle)
}

// removeBusy removes the shards of the owner that it has not reported as idle.
func (is *idleShards) removeBusy(committed *shardmap.Map, owner shardmap.NodeID, reported []shardmap.Shard) {
	isIdle := shardSetOf(reported)
	is.removeMatching(func(shard shardmap.Shard) bool { return committed.Owner(shard) == owner && !isIdle[shard] })
}

// addOwned adds all shards of the owners.
func (is *idleShards) addOwned(committed *shardmap.Map, owners []shardmap.NodeID) {
	idle := maps.Clone(is.shards)
	for _, owner := range owners {
		for shard := range committed.Shards(owner) {
			setKey(&idle, shard, true)
		}
	}
	is.set(idle)
}

// removeOwned removes the idle shards of the owners, except of nodes under a gradual drain, which
// report continuously. The responses of other owners become outdated: a later change that cannot
// wait for a query would move shards for which requests have begun since.
func (is *idleShards) removeOwned(state *ack.State, owners map[shardmap.NodeID]bool) {
	if len(is.shards) == 0 || len(owners) == 0 {
		return
	}
	committed, policy := state.Committed(), state.Policy()
	isOutdated := func(shard shardmap.Shard) bool {
		owner := committed.Owner(shard)
		return owners[owner] && !policy.DrainsGradually(owner)
	}
	for shard := range is.shards {
		if isOutdated(shard) {
			is.removeMatching(isOutdated)
			return
		}
	}
}

// shardSetOf returns the shards as a set.
func shardSetOf(shards []shardmap.Shard) map[shardmap.Shard]bool {
	set := make(map[shardmap.Shard]bool, len(shards))
	for _, shard := range shards {
		set[shard] = true
	}
	return set
}
