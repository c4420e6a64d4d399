package shardmap

// Policy is what operators ask of a map beyond an even spread. The zero value asks
// for nothing. It decides where shards go, never who may serve.
type Policy struct {
	// Cordoned members get nothing that they do not have already, but for what has
	// no other place.
	Cordoned map[NodeID]bool
	// Drained members get and keep nothing.
	Drained map[NodeID]bool
	// Absent members are away for a moment: they keep just what they have, whatever
	// else is asked, and get nothing.
	Absent map[NodeID]bool
	// Emptying members get nothing, and keep what they have but for Idle, as long as
	// somebody else may have it; absent ones keep that, too.
	Emptying map[NodeID]bool
	Idle     map[Shard]bool
	// Staged owners keep each shard that is not in Idle: Assign moves it in a later map.
	// A staged owner that is not among the members stays a member, with its weight in
	// prev, as long as it keeps a shard.
	Staged map[NodeID]bool
	// Kept shards stay with their owners, as shards of Staged owners that are not idle.
	Kept map[Shard]bool
	// Weights stand in the place of the members' own.
	Weights map[NodeID]uint32
	// Pins say where shards belong while that place can take them.
	Pins map[Shard]Pin
	// Paused: a shard moves only if its owner is no member any more.
	Paused bool
	// Before says, by shard, who owned it before its present owner did; nil, or empty:
	// nobody. Among shards that may as well move, those move that go back there.
	Before []NodeID
	// Barred are, by member, the shards that it must not get: its app may still hold an old
	// copy of their state. A member keeps what it owns. A shard that nobody owns goes to a
	// barred member if no other member may get it.
	Barred map[NodeID]ShardSet
	// Zones says where the members stand; only pins to a zone ask. A member that is
	// not in it stands nobody knows where.
	Zones map[NodeID]string
}

// Pin is where a shard belongs: a node or, if that is empty, any node of a zone.
// While the node, or every node of the zone, is no member, absent or cordoned, the shard is
// placed like one without a pin, but one that is there already stays there.
type Pin struct {
	Node NodeID
	Zone string
}

// apply returns the members that may own anything, with the weights that count.
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
