package shardmap

// Policy contains the constraints that operators and the leader set for the next map. The zero
// Policy asks for an even spread only. A Policy decides where shards move, and never whether a node
// may serve a shard.
type Policy struct {
	// Cordoned members receive no further shards, unless no other member can own them.
	Cordoned map[NodeID]bool
	// Drained members own no shards.
	Drained map[NodeID]bool
	// Absent members are restarting. They keep exactly the shards that they own, whatever else
	// the policy contains, and receive none.
	Absent map[NodeID]bool
	// Emptying members receive no shards. They keep their shards, except those in Idle, as long as
	// another member can own these. A member that is also absent keeps its idle shards, too.
	Emptying map[NodeID]bool
	// Idle contains the shards that are not in use. It matters only for Emptying and Staged owners.
	Idle map[Shard]bool
	// Staged owners keep the shards that are not in Idle; a later call of Assign moves them. A
	// staged owner that is not in the given members stays a member as long as it keeps a shard,
	// with its weight in the previous map.
	Staged map[NodeID]bool
	// Kept shards stay with their owners, like the shards of Staged owners that are not idle.
	Kept map[Shard]bool
	// Weights replace the weights of members.
	Weights map[NodeID]uint32
	// Pins assign shards to a node or a zone, as long as such a node can own them.
	Pins map[Shard]Pin
	// Paused allows a shard to move only if its owner is no longer a member.
	Paused bool
	// Before contains, by shard, the owner before the current owner. It is empty if no previous
	// owners are known. Among shards that can move equally well, Assign moves those that return to
	// their previous owner.
	Before []NodeID
	// Barred contains, by member, the shards that the member must not receive, because its app may
	// still hold an old copy of their state. A member keeps a shard that it owns. An orphaned shard
	// goes to a barred member only if no other member can own it.
	Barred map[NodeID]ShardSet
	// Zones contains the zone of each member. It matters only for pins to a zone. The zone of a
	// member that is missing here is unknown.
	Zones map[NodeID]string
}

// Pin assigns a shard to a node or, if Node is empty, to any node of a zone. If the node, or every
// node of the zone, is missing, absent or cordoned, then the shard is placed as if it had no pin. A
// shard that is already there stays there.
type Pin struct {
	Node NodeID
	Zone string
}

// eligible returns the members that may own shards, with the weights of the policy.
func (p Policy) eligible(members []Member) []Member {
	if len(p.Drained) == 0 && len(p.Weights) == 0 {
		return members
	}
	out := make([]Member, 0, len(members))
	for _, mb := range members {
		if p.Drained[mb.ID] && !p.Absent[mb.ID] {
			continue
		}
		if w, ok := p.Weights[mb.ID]; ok {
			mb.Weight = w
		}
		out = append(out, mb)
	}
	return out
}
