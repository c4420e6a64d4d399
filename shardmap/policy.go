package shardmap

// Policy contains the constraints that operators and the leader set for the next map. The zero
// Policy asks for an even spread only. A Policy decides where shards move, and never whether a node
// may serve a shard.
type Policy struct {
	// Cordoned members receive no further shards, unless no other member can own them.
	Cordoned map[NodeID]bool
	// Drained members own no shards. An instance owns no shards if its InstanceName is in Drained, and
	// a member owns none if all its instances are.
	Drained map[NodeID]bool
	// Restarting contains the members that restart in place. They keep exactly the shards that they
	// own, regardless of the rest of the policy, and receive none.
	Restarting map[NodeID]bool
	// GraduallyDrained contains members that receive no shards. They keep their shards, except
	// those in IdleShards, as long as another member can own these. A member that is also
	// restarting keeps its idle shards, too.
	GraduallyDrained map[NodeID]bool
	// Emptied contains members that receive no shards and lose those that they own, as long as another
	// member can own these and is not barred from them. While moves are paused, and in GraduallyDrained
	// or Restarting, they keep their shards like any other member there.
	Emptied map[NodeID]bool
	// Assigned contains the owners of shards that are placed before all others. Such an owner may be in Cordoned or in
	// Emptied. An entry has no effect while moves are paused, if its node is not a member, or if its node or the
	// present owner is in Restarting or GraduallyDrained.
	Assigned map[Shard]NodeID
	// Substitutes contains members in Cordoned or Emptied that receive an orphaned shard if all members that can receive
	// it are barred from it (Barred). It has no effect for members in Restarting or GraduallyDrained, and for shards from
	// which the member itself is barred.
	Substitutes map[NodeID]bool
	// IdleShards contains the shards that are not in use. It matters only for owners in
	// GraduallyDrained or DefersMoves.
	IdleShards map[Shard]bool
	// DefersMoves contains the owners that keep the shards that are not in IdleShards; a later call
	// of Assign moves them. Such an owner that is not in the given members stays a member as long
	// as it keeps a shard, with its weight in the previous map.
	DefersMoves map[NodeID]bool
	// KeptShards contains shards that stay with their owners even if the policy moves them.
	KeptShards map[Shard]bool
	// Weights replace the weights of members.
	Weights map[NodeID]uint32
	// Pins assign shards to a node or a zone, as long as such a node can own them.
	Pins map[Shard]Pin
	// PinFallbacks contains, by shard, the nodes to which a pin to a node refers if that node cannot
	// own the shard, in order of preference.
	PinFallbacks map[Shard][]NodeID
	// Paused allows a shard to move only if its owner is no longer a member.
	Paused bool
	// PreviousOwners contains, by shard, the owner before the current owner. It is empty if no
	// previous owners are known. Among shards that can move equally well, Assign moves those that
	// return to their previous owner.
	PreviousOwners []NodeID
	// Barred contains, by InstanceID, the shards that the app instance must not receive, because it may
	// still hold an old copy of their state. A member is barred if all its instances are. A member keeps a
	// shard that it owns. An orphaned shard goes to a barred member only if no other member can own it.
	Barred map[NodeID]ShardSet
	// Zones contains the zone of each member. It matters only for pins to a zone,
	// for standbys and for SpreadZones. The zone of a
	// member that is missing here is unknown.
	Zones map[NodeID]string
	// SpreadZones gives all zones the same number of shards. The members of a zone share its shards by their weights.
	// Members without a zone count as one zone. While the zone of a member is unknown, shards move as if Paused were set.
	SpreadZones bool
	// Services are the services that share the map. If there are none, all members run the only service,
	// which has all shards.
	Services []Service
	// Replicas is the number of standbys of each shard, from 0 to MaxReplicas, if there are no Services.
	Replicas int
	// isPartOfServices is true if the policy is that of one service. assignServices sets it.
	isPartOfServices bool
	// ownedElsewhere contains, by member, the number of shards of other services that it owns.
	// assignServices sets it.
	ownedElsewhere map[NodeID]int
}

// Pin assigns a shard to a node or, if Node is empty, to any node of a zone. If the node, or every
// node of the zone, is missing, restarting or cordoned, then the shard is placed as if it had no
// pin. A shard that is already there stays there. Policy.PinFallbacks contains further nodes of a
// pin: the first of all nodes of the pin that can own the shard owns it.
type Pin struct {
	Node NodeID
	Zone string
}

// eligible returns the members that may own shards, with the weights of the policy.
func (p Policy) eligible(members []Member) []Member {
	if len(p.Drained) == 0 && len(p.Weights) == 0 {
		return members
	}
	eligible := make([]Member, 0, len(members))
	for _, member := range members {
		instances, allDrained := p.undrainedInstances(member)
		if allDrained && !p.Restarting[member.ID] {
			continue
		}
		member.Instances = instances
		if weight, ok := p.Weights[member.ID]; ok {
			member.Weight = weight
		}
		eligible = append(eligible, member)
	}
	return eligible
}

// DrainsAll reports whether the member or each of its instances is drained.
func (p Policy) DrainsAll(member Member) bool {
	_, allDrained := p.undrainedInstances(member)
	return allDrained
}

// undrainedInstances returns the instances of the member that are not drained. allDrained is true if
// there are none; instances are then all of them.
func (p Policy) undrainedInstances(member Member) (instances InstanceSet, allDrained bool) {
	if p.Drained[member.ID] {
		return member.Instances, true
	}
	if len(p.Drained) == 0 {
		return member.Instances, false
	}
	rest, isEmpty := member.Instances.Without(func(instance Instance) bool { return p.Drained[InstanceName(member.ID, instance)] })
	if isEmpty {
		return member.Instances, true
	}
	return rest, false
}
