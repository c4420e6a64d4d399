package leader

import (
	"maps"
	"slices"

	"shardway/shardmap"
)

// avoidFailingApps adapts the policy of the next map to acquire failures. A failing shard
// moves to the member with the fewest shards whose app has not failed to acquire it, and stays
// there. Without such a member it stays where it is. A member whose app cannot acquire any shard
// gets no further shards, as if it were cordoned.
func (l *Leader) avoidFailingApps(placement *shardmap.Policy, members []shardmap.Member) {
	base, avoid := l.state.Committed(), map[shardmap.Shard]map[shardmap.NodeID]bool{}
	cordoned := false
	for _, member := range members {
		node := l.member(member.ID)
		for _, shard := range node.heartbeat.UnacquiredShards {
			if int(shard) < base.Len() {
				if avoid[shard] == nil {
					avoid[shard] = map[shardmap.NodeID]bool{}
				}
				avoid[shard][member.ID] = true
			}
		}
		if node.heartbeat.AcquiresNone && !placement.Cordoned[member.ID] {
			if !cordoned {
				placement.Cordoned, cordoned = maps.Clone(placement.Cordoned), true
			}
			setKey(&placement.Cordoned, member.ID, true)
		}
	}
	if len(avoid) == 0 {
		return
	}
	counts := map[shardmap.NodeID]int{}
	for _, member := range members {
		if !placement.Restarting[member.ID] && !placement.Cordoned[member.ID] && !placement.GraduallyDrained[member.ID] && !placement.Drained[member.ID] {
			counts[member.ID] = base.ShardCount(member.ID)
		}
	}
	placement.Pins = maps.Clone(placement.Pins)
	for _, shard := range slices.Sorted(maps.Keys(avoid)) {
		if to := l.relocationTarget(placement, members, base.Owner(shard), shard, avoid[shard], counts); to != "" {
			setKey(&placement.Pins, shard, shardmap.Pin{Node: to})
			counts[to]++
		}
	}
}

// relocationTarget returns the member that should own a shard which the apps of avoid fail to
// acquire. Empty means that the shard is placed like any other.
func (l *Leader) relocationTarget(placement *shardmap.Policy, members []shardmap.Member, owner shardmap.NodeID, shard shardmap.Shard, avoid map[shardmap.NodeID]bool, counts map[shardmap.NodeID]int) (to shardmap.NodeID) {
	pin, pinned := placement.Pins[shard]
	_, pinUsable := counts[pin.Node]
	if pinned && pinUsable && !avoid[pin.Node] {
		return ""
	}
	isOwner := func(member shardmap.Member) bool { return member.ID == owner }
	ownerCanKeep := slices.ContainsFunc(members, isOwner) && !placement.GraduallyDrained[owner] && !placement.Drained[owner]
	if ownerCanKeep && !avoid[owner] {
		return owner
	}
	for _, member := range members {
		count, allowed := counts[member.ID]
		if !allowed || avoid[member.ID] || pinned && pin.Zone != "" && placement.Zones[member.ID] != pin.Zone {
			continue
		}
		if to == "" || count < counts[to] {
			to = member.ID
		}
	}
	if to == "" && ownerCanKeep {
		return owner
	}
	return to
}
