package leader

import (
	"maps"
	"slices"

	"shardway/ack"
	"shardway/shardmap"
)

// placementInputs are the inputs of the next map: the nodes that may own shards, and everything
// that decides which shards they own.
type placementInputs struct {
	inputs
	members []shardmap.Member // the nodes of the next map
	// restarting are the members that restart in place, and keep exactly their shards.
	restarting map[shardmap.NodeID]bool
	// keptShards stay with their owners, because the apps have failed to release them.
	keptShards map[shardmap.Shard]bool
	// services are the services, with the members that may own shards of each; nil if there is only one.
	services    []shardmap.Service
	replicas    map[string]int // Options.Replicas
	spreadZones bool           // Options.SpreadZones
	idle        idleShards
	nodes       *memberTracker // for zones, roles and acquire failures in heartbeats
	// reportsVersion was nodes.reportsVersion when the inputs were collected.
	reportsVersion uint64
}

// equals reports whether the inputs produce the same map as other.
func (pi *placementInputs) equals(other *placementInputs) bool {
	a, b := pi.state, other.state
	sameMaps := a.Committed() == b.Committed() && a.Proposed() == b.Proposed()
	sameSettings := a.Policy() == b.Policy() && a.DeparturesIndex() == b.DeparturesIndex()
	sameReports := pi.reportsVersion == other.reportsVersion && pi.idle.version == other.idle.version
	if !sameMaps || !sameSettings || !sameReports {
		return false
	}
	sameMembers := slices.Equal(pi.members, other.members) && maps.Equal(pi.restarting, other.restarting)
	return sameMembers && maps.Equal(pi.keptShards, other.keptShards) && slices.EqualFunc(pi.services, other.services, isSameService)
}

// placement returns the placement policy for shardmap.Assign.
func (pi *placementInputs) placement() shardmap.Policy {
	placement := pi.state.Policy().Placement(pi.nodes.zones())
	placement.Restarting, placement.PreviousOwners = pi.restarting, pi.state.PreviousOwners()
	placement.IdleShards = pi.idle.shards
	placement.Barred = pi.state.BarredShards()
	placement.Services, placement.Replicas = pi.services, pi.replicas[ack.DefaultService]
	placement.SpreadZones = pi.spreadZones
	pi.cordonFailingApps(&placement)
	groups := pi.restrictToRole(&placement)
	pi.avoidFailingApps(&placement, groups)
	placement.KeptShards = pi.keptShards
	return placement
}

// assign returns the map that the placement policy gives.
func (pi *placementInputs) assign(placement shardmap.Policy) *shardmap.Map {
	return shardmap.Assign(pi.state.Committed(), pi.members, placement)
}

// assignment is the next map, and the part of it that may be proposed now.
type assignment struct {
	inputs placementInputs
	// finalMap is the target map, or nil if there is none. losingOwners are the owners from which
	// it takes shards.
	finalMap     *shardmap.Map
	losingOwners []shardmap.NodeID
	// stageMap is the map that may be proposed now. It differs from finalMap only in the moves that
	// deferringOwners defer: these owners keep their busy shards for now. The value is the set of
	// instances of the owner that have not failed.
	stageMap        *shardmap.Map
	deferringOwners map[shardmap.NodeID]shardmap.InstanceSet
	// isUrgent is set if stageMap contains an urgent change, so the leader must propose it before
	// the owners have answered which of their shards are idle.
	isUrgent bool
}

// update computes the final map. While its inputs are unchanged, it keeps the previous result with
// the stage map, because it runs in every step and the inputs seldom change. Without members the
// last map remains (rule 10), even if it is only proposed: the committed map may contain a dropped
// node, which must not become an owner again.
func (a *assignment) update(in placementInputs) {
	if a.finalMap != nil && a.inputs.equals(&in) {
		in.members = a.inputs.members
		a.inputs = in
		return
	}
	in.members = slices.Clone(in.members) // the caller reuses the slice
	final := in.state.Proposed()
	var losingOwners []shardmap.NodeID
	if len(in.members) > 0 {
		final = in.assign(in.placement())
		losingOwners = ownersLosingShards(in.state.Committed(), final)
	}
	*a = assignment{inputs: in, finalMap: final, losingOwners: losingOwners}
}

// planStage computes the map that may be proposed now. A change of the map may be proposed in
// several stages, so that busy shards do not delay idle ones. deferringOwners are the owners that
// may keep their busy shards for now, with their instances that have not failed.
func (a *assignment) planStage(deferringOwners map[shardmap.NodeID]shardmap.InstanceSet) {
	if a.stageMap != nil && maps.Equal(a.deferringOwners, deferringOwners) {
		return
	}
	a.stageMap, a.deferringOwners, a.isUrgent = a.finalMap, deferringOwners, false
	if len(deferringOwners) > 0 {
		placement := a.inputs.placement()
		placement.DefersMoves = nodeSetOf(deferringOwners)
		placement.IdleShards = a.withFailedShards(placement.IdleShards)
		a.stageMap = a.inputs.assign(placement)
		a.isUrgent = a.hasUrgentChange()
	}
}

// withFailedShards returns the idle shards and the shards of failed instances. These instances
// answer no request, so their shards must not wait. Assign finds them only for members of the next
// map, but an owner that is drained or stops is not a member.
func (a *assignment) withFailedShards(idle map[shardmap.Shard]bool) map[shardmap.Shard]bool {
	committed, isCloned := a.inputs.state.Committed(), false
	for owner := range a.deferringOwners {
		for shard := range committed.Shards(owner) {
			if !a.hasFailed(owner, committed.Instance(shard)) {
				continue
			}
			if !isCloned {
				idle, isCloned = maps.Clone(idle), true
			}
			setKey(&idle, shard, true)
		}
	}
	return idle
}

// hasUrgentChange reports whether the stage map contains a change that must not wait for answers:
// it excludes a member, or moves a shard whose owner does not defer.
func (a *assignment) hasUrgentChange() bool {
	for _, member := range a.inputs.state.Proposed().Members() {
		if !a.stageMap.IsMember(member.ID) {
			return true
		}
	}
	for _, move := range shardmap.Diff(a.inputs.state.Committed(), a.stageMap) {
		if _, defers := a.deferringOwners[move.From]; !defers || a.hasFailed(move.From, move.FromInstance) {
			return true
		}
	}
	return false
}

// hasFailed reports whether an owner that defers moves has lost the instance because it is unhealthy.
func (a *assignment) hasFailed(owner shardmap.NodeID, instance shardmap.Instance) bool {
	return !a.deferringOwners[owner].Has(instance)
}

// leavesBusyShard reports whether the final map takes a shard from the node that is not in idle.
func (a *assignment) leavesBusyShard(committed *shardmap.Map, node shardmap.NodeID, idle []shardmap.Shard) bool {
	isIdle := shardSetOf(idle)
	for shard := range committed.Shards(node) {
		if !a.finalMap.HasSameOwner(committed, shard) && !isIdle[shard] {
			return true
		}
	}
	return false
}

// ownersLosingShards returns the owners from which want takes shards, ascending.
func ownersLosingShards(base, want *shardmap.Map) []shardmap.NodeID {
	from := map[shardmap.NodeID]bool{}
	for _, move := range shardmap.Diff(base, want) {
		if move.From != "" {
			from[move.From] = true
		}
	}
	return slices.Sorted(maps.Keys(from))
}

// nodeSetOf returns the keys as a set.
func nodeSetOf(instances map[shardmap.NodeID]shardmap.InstanceSet) map[shardmap.NodeID]bool {
	set := make(map[shardmap.NodeID]bool, len(instances))
	for id := range instances {
		set[id] = true
	}
	return set
}
