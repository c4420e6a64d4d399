package leader

import (
	"maps"
	"slices"

	"shardway/shardmap"
)

// roleGroups are the members of the next map, except those that restart in place, by the role to which an
// operator has restricted shards.
type roleGroups struct {
	// owners have the role, and may get further shards.
	owners []shardmap.NodeID
	// lacking do not have the role.
	lacking []shardmap.NodeID
	// unknown have not sent a heartbeat to this leader, so their roles are unknown.
	unknown []shardmap.NodeID
	// substitutes are the members in lacking and unknown that could get further shards.
	substitutes []shardmap.NodeID
}

// restrictToRole adapts the policy of the next map to the role to which an operator has restricted shards. Members
// without the role get no shards and lose those that they own, as long as a member with the role may get further
// shards. They stay members of the map. Without such a member they are cordoned: they keep their shards, and orphaned
// shards get an owner.
//
// A new leader moves only orphaned shards before it has the roles of all members.
//
// An old copy of a shard outranks the role: an orphaned shard from which all possible owners are barred goes to a member
// that is not barred, even if that member does not have the role.
func (pi *placementInputs) restrictToRole(placement *shardmap.Policy) (groups roleGroups) {
	groups = pi.groupByRole(placement)
	placement.Paused = placement.Paused || len(groups.unknown) > 0
	placement.Substitutes = withNodes(nil, groups.substitutes)
	if len(groups.owners) == 0 {
		placement.Cordoned = withNodes(placement.Cordoned, groups.lacking)
		return groups
	}
	placement.Cordoned = withNodes(placement.Cordoned, groups.unknown)
	placement.Emptied = withNodes(nil, groups.lacking)
	return groups
}

// withNodes returns a set of the nodes in set and in ids. It does not modify set. If ids is empty, it returns set itself,
// which may be nil.
func withNodes(set map[shardmap.NodeID]bool, ids []shardmap.NodeID) map[shardmap.NodeID]bool {
	if len(ids) == 0 {
		return set
	}
	set = maps.Clone(set)
	for _, id := range ids {
		setKey(&set, id, true)
	}
	return set
}

// groupByRole assigns the members to the groups of roleGroups. A member can be in several groups, or in none. If no
// operator has restricted shards to a role, all groups are empty.
func (pi *placementInputs) groupByRole(placement *shardmap.Policy) (groups roleGroups) {
	if pi.state.Policy().Role == "" {
		return roleGroups{}
	}
	for _, member := range pi.members {
		node := pi.nodes.getOrCreate(member.ID)
		mayReceive := !placement.Cordoned[member.ID] && !placement.GraduallyDrained[member.ID] && !placement.DrainsAll(member)
		switch {
		case placement.Restarting[member.ID]: // it keeps exactly its shards, so it is in no group
		case !node.hasHeartbeat():
			groups.unknown = append(groups.unknown, member.ID)
			if mayReceive {
				groups.substitutes = append(groups.substitutes, member.ID)
			}
		case node.lacksRole(pi.inputs):
			groups.lacking = append(groups.lacking, member.ID)
			if mayReceive {
				groups.substitutes = append(groups.substitutes, member.ID)
			}
		case mayReceive:
			groups.owners = append(groups.owners, member.ID)
		}
	}
	return groups
}

// lacksRole reports whether an operator has restricted shards to a role that the node does not have, according to
// its heartbeats in this term.
func (m *member) lacksRole(in inputs) bool {
	role := in.state.Policy().Role
	return role != "" && m.hasHeartbeat() && !slices.Contains(m.heartbeat.Roles, role)
}
