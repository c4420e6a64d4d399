package leader

import (
	"maps"
	"slices"

	"shardway/ack"
	"shardway/shardmap"
)

// gradualDrains measures how long gradual drains have been in force. A gradual drain moves only
// idle shards, until its time is over. Then it becomes an ordinary drain.
type gradualDrains struct {
	// firstSeen are the nodes that drain gradually.
	firstSeen map[shardmap.NodeID]firstSighting
	// overdue are drained nodes whose gradual drain has ended. Their busy shards no longer wait.
	overdue map[shardmap.NodeID]bool
}

// finished returns the changes that turn gradual drains into ordinary ones, because the node no
// longer owns a shard or the time is over.
func (gd *gradualDrains) finished(in inputs) []ack.Change {
	policy := in.state.Policy()
	if len(policy.GradualDrains) == 0 {
		return nil
	}
	firstSeen := map[shardmap.NodeID]firstSighting{}
	var changes []ack.Change
	for _, id := range slices.Sorted(maps.Keys(policy.GradualDrains)) {
		drain := policy.GradualDrains[id]
		sighting := gd.firstSeen[id]
		if sighting.entryIndex != drain.Index {
			sighting = firstSighting{entryIndex: drain.Index, seenAt: in.now}
		}
		firstSeen[id] = sighting
		ownsNothing := in.state.Committed().ShardCount(id) == 0 && in.state.Proposed().ShardCount(id) == 0
		isOver := ownsNothing || in.now-sighting.seenAt >= drain.Duration
		if isOver && len(changes) < ack.MaxChanges {
			options := policy.DrainOptions[id]
			changes = append(changes, ack.Change{
				Kind: ack.ChangeDrain, Node: id, ReleaseTimeout: options.ReleaseTimeout, SafeDrain: options.Safe,
				Reason: policy.Reasons[ack.PolicyItem{Kind: ack.ChangeDrain, Node: id}],
			})
		}
	}
	gd.firstSeen = firstSeen
	for _, change := range changes {
		setKey(&gd.overdue, change.Node, true)
	}
	return changes
}

// applyPolicy forgets the overdue drains that a new policy has cancelled.
func (gd *gradualDrains) applyPolicy(after *ack.Policy) {
	maps.DeleteFunc(gd.overdue, func(id shardmap.NodeID, _ bool) bool { return !after.IsDraining(id) })
}
