package leader

import (
	"maps"
	"slices"

	"shardway/shardmap"
)

// avoidFailingApps adapts the policy of the next map to acquire failures. A failing shard
// moves to the member with the fewest shards whose app has not failed to acquire it, and stays
// there. If no member with the required role can acquire the shard, a member without the role owns it for now. Without
// any such member the shard stays where it is. The caller must call cordonFailingApps and restrictToRole before.
func (pi *placementInputs) avoidFailingApps(placement *shardmap.Policy, groups roleGroups) {
	failing := pi.failingShards()
	if len(failing) == 0 {
		return
	}
	relocation := newRelocation(placement, pi.state.Committed(), pi.members)
	substitutes := relocation.forSubstitutes(pi.state.Committed(), groups)
	placement.Pins, placement.PinFallbacks = maps.Clone(placement.Pins), maps.Clone(placement.PinFallbacks)
	for _, shard := range slices.Sorted(maps.Keys(failing)) {
		owner := pi.state.Committed().Owner(shard)
		if to := substitutes.substituteFor(relocation, shard, owner, failing[shard]); to != "" {
			setKey(&placement.Assigned, shard, to)
			substitutes.countMove(owner, to)
			continue
		}
		if to := relocation.target(shard, owner, failing[shard]); to != "" {
			setKey(&placement.Pins, shard, shardmap.Pin{Node: to})
			delete(placement.PinFallbacks, shard)
			relocation.countMove(owner, to)
		}
	}
}

// cordonFailingApps cordons the members whose apps cannot acquire any shard. They get no further shards.
func (pi *placementInputs) cordonFailingApps(placement *shardmap.Policy) {
	isCloned := false
	for _, member := range pi.members {
		node := pi.nodes.getOrCreate(member.ID)
		if node.heartbeat.AcquiresNone && !placement.Cordoned[member.ID] {
			if !isCloned {
				placement.Cordoned, isCloned = maps.Clone(placement.Cordoned), true
			}
			setKey(&placement.Cordoned, member.ID, true)
		}
	}
}

// failingShards returns the shards that apps have failed to acquire, with the nodes of these apps.
func (pi *placementInputs) failingShards() map[shardmap.Shard]map[shardmap.NodeID]bool {
	var failing map[shardmap.Shard]map[shardmap.NodeID]bool
	for _, member := range pi.members {
		for _, shard := range pi.nodes.getOrCreate(member.ID).heartbeat.UnacquiredShards {
			if int(shard) >= pi.state.Committed().Len() {
				continue
			}
			nodes := failing[shard]
			setKey(&nodes, member.ID, true)
			setKey(&failing, shard, nodes)
		}
	}
	return failing
}

// relocation finds new owners for shards that apps have failed to acquire.
type relocation struct {
	placement *shardmap.Policy
	members   []shardmap.Member
	// shardCounts are the members that may get further shards, with their numbers of shards.
	shardCounts map[shardmap.NodeID]int
}

// newRelocation returns the relocation by a placement policy. Nodes that drain, restart, are emptied or are
// cordoned get no further shards. A node of which each app instance is drained drains.
func newRelocation(placement *shardmap.Policy, committed *shardmap.Map, members []shardmap.Member) *relocation {
	r := &relocation{placement: placement, members: members, shardCounts: map[shardmap.NodeID]int{}}
	for _, member := range members {
		isDraining := placement.GraduallyDrained[member.ID] || placement.Emptied[member.ID] || placement.DrainsAll(member)
		if !isDraining && !placement.Restarting[member.ID] && !placement.Cordoned[member.ID] {
			r.shardCounts[member.ID] = committed.ShardCount(member.ID)
		}
	}
	return r
}

// forSubstitutes returns the relocation to the members without the role to which an operator has restricted shards.
func (rl *relocation) forSubstitutes(committed *shardmap.Map, groups roleGroups) *relocation {
	r := &relocation{placement: rl.placement, members: rl.members, shardCounts: map[shardmap.NodeID]int{}}
	for _, id := range groups.substitutes {
		r.shardCounts[id] = committed.ShardCount(id)
	}
	return r
}

// substituteFor returns the member without the role that should own a shard which the apps of the nodes in failing have
// failed to acquire. It returns "" if a member that regular can choose may acquire the shard, or if there is no substitute.
func (rl *relocation) substituteFor(regular *relocation, shard shardmap.Shard, owner shardmap.NodeID, failing map[shardmap.NodeID]bool) shardmap.NodeID {
	if len(rl.shardCounts) == 0 || rl.placement.Paused {
		return ""
	}
	if regular.canKeep(owner, shard) && !failing[owner] || regular.leastLoaded(shard, failing, rl.placement.Pins[shard].Zone) != "" {
		return ""
	}
	if _, isSubstitute := rl.shardCounts[owner]; isSubstitute && !failing[owner] {
		return owner
	}
	return rl.leastLoaded(shard, failing, rl.placement.Pins[shard].Zone)
}

// target returns the member that should own a shard which the apps of the nodes in failing have failed to acquire.
// It returns "" if the shard is placed like any other.
func (rl *relocation) target(shard shardmap.Shard, owner shardmap.NodeID, failing map[shardmap.NodeID]bool) shardmap.NodeID {
	pin := rl.placement.Pins[shard]
	ownerCanKeep := rl.canKeep(owner, shard)
	for _, node := range append([]shardmap.NodeID{pin.Node}, rl.placement.PinFallbacks[shard]...) {
		canReceive := rl.canReceive(node, shard)
		switch {
		case failing[node]:
		case canReceive && node == pin.Node:
			return ""
		case canReceive || node == owner && ownerCanKeep:
			return node
		}
	}
	if ownerCanKeep && !failing[owner] {
		return owner
	}
	target := rl.leastLoaded(shard, failing, pin.Zone)
	if target == "" && ownerCanKeep {
		return owner
	}
	return target
}

// countMove counts a shard that moves to another member. A shard that stays is already counted. Its owner may be a
// node that gets no further shards, and must not become a target.
func (rl *relocation) countMove(owner, to shardmap.NodeID) {
	if to != owner {
		rl.shardCounts[to]++
	}
}

// leastLoaded returns the member with the fewest shards that may get further shards, is not in failing, is not
// barred from the shard, and is in the zone, or "" if there is none. An empty zone means any zone.
func (rl *relocation) leastLoaded(shard shardmap.Shard, failing map[shardmap.NodeID]bool, zone string) (target shardmap.NodeID) {
	for _, member := range rl.members {
		count, allowed := rl.shardCounts[member.ID]
		if !allowed || failing[member.ID] {
			continue
		}
		if rl.isBarred(member, shard) {
			continue
		}
		if zone != "" && rl.placement.Zones[member.ID] != zone {
			continue
		}
		if target == "" || count < rl.shardCounts[target] {
			target = member.ID
		}
	}
	return target
}

// canReceive reports whether the node may get further shards and is not barred from the shard.
func (rl *relocation) canReceive(node shardmap.NodeID, shard shardmap.Shard) bool {
	if _, isUsable := rl.shardCounts[node]; !isUsable {
		return false
	}
	i := slices.IndexFunc(rl.members, func(member shardmap.Member) bool { return member.ID == node })
	return i >= 0 && !rl.isBarred(rl.members[i], shard)
}

// isBarred reports whether every instance of the member that is not drained is barred from the shard, or
// none runs its service. Assign would not place the shard there.
func (rl *relocation) isBarred(member shardmap.Member, shard shardmap.Shard) bool {
	for _, instance := range rl.instancesFor(member, shard) {
		isDrained := rl.placement.Drained[shardmap.InstanceName(member.ID, instance)]
		if !isDrained && !rl.placement.Barred[shardmap.InstanceID(member.ID, instance)].Has(shard) {
			return false
		}
	}
	return true
}

// instancesFor returns the instances of the member that run the service of the shard.
func (rl *relocation) instancesFor(member shardmap.Member, shard shardmap.Shard) []shardmap.Instance {
	for _, service := range rl.placement.Services {
		if service.Contains(shard) {
			if instances, runs := service.Instances[member.ID]; runs {
				return instances.All()
			}
			return nil
		}
	}
	return member.Instances.All()
}

// canKeep reports whether the owner of the shard is a member that is neither drained nor emptied, runs the
// service of the shard, and has an app instance that is not drained.
func (rl *relocation) canKeep(owner shardmap.NodeID, shard shardmap.Shard) bool {
	i := slices.IndexFunc(rl.members, func(member shardmap.Member) bool { return member.ID == owner })
	if i < 0 || len(rl.instancesFor(rl.members[i], shard)) == 0 {
		return false
	}
	isEmptied := rl.placement.GraduallyDrained[owner] || rl.placement.Emptied[owner] && !rl.placement.Paused
	return !isEmptied && !rl.placement.DrainsAll(rl.members[i])
}
