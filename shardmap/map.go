package shardmap

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
)

// noOwner is the owner index of an orphaned shard, which is a shard without an owner.
const noOwner = -1

// Map assigns each shard to a member. It is immutable; use it as *Map.
type Map struct {
	epoch   Epoch
	members []Member // sorted by id, without duplicates
	owners  []int16  // by shard: index in members, or noOwner
	// instances contains, by shard, the instance of the owner that runs its requests. It is nil if
	// all shards are at the first instance.
	instances []Instance
	since     []Epoch // by shard: ownership epoch, 0 if orphaned
	counts    []int   // by member: number of owned shards
	orphans   int     // number of shards without an owner
}

// New returns the initial map: epoch 0, no members, and only orphaned shards. It panics unless
// 1 ≤ shards ≤ MaxShards.
func New(shards int) *Map {
	if shards < 1 || shards > MaxShards {
		panic(fmt.Sprintf("shardmap: %d shards, want 1 to %d", shards, MaxShards))
	}
	m := &Map{
		owners:  make([]int16, shards),
		since:   make([]Epoch, shards),
		orphans: shards,
	}
	for shard := range m.owners {
		m.owners[shard] = noOwner
	}
	return m
}

// Len returns the number of shards.
func (m *Map) Len() int { return len(m.owners) }

// Epoch returns the epoch that WithEpoch has set. A map from Assign has the epoch of the previous
// map.
func (m *Map) Epoch() Epoch { return m.epoch }

// Owner returns the node that owns the shard, or "" if it is orphaned. A shard that the map does not
// have is orphaned: a map gets longer when the cluster gets another service.
func (m *Map) Owner(shard Shard) NodeID {
	if i := m.ownerIndexOrNone(int(shard)); i >= 0 {
		return m.members[i].ID
	}
	return ""
}

// OwnerIndex returns the index of the owner of the shard in Members, or -1 if it is orphaned.
func (m *Map) OwnerIndex(shard Shard) int { return int(m.ownerIndexOrNone(int(shard))) }

// Instance returns the instance of the owner that runs the requests of the shard; zero if it is
// orphaned.
func (m *Map) Instance(shard Shard) Instance { return m.instanceOf(int(shard)) }

// OwnerInstanceID returns the owner of the shard together with its instance, as InstanceID does, or
// "" if it is orphaned.
func (m *Map) OwnerInstanceID(shard Shard) NodeID {
	owner := m.Owner(shard)
	if owner == "" {
		return ""
	}
	return InstanceID(owner, m.instanceOf(int(shard)))
}

// HasSameOwner reports whether m and other assign the shard to the same instance of the same node,
// or to none.
func (m *Map) HasSameOwner(other *Map, shard Shard) bool {
	return m.Owner(shard) == other.Owner(shard) && m.instanceOf(int(shard)) == other.instanceOf(int(shard))
}

// IsOwnedBy reports whether the shard is assigned to the given instance of the given node.
func (m *Map) IsOwnedBy(shard Shard, node NodeID, instance Instance) bool {
	return m.Owner(shard) == node && m.instanceOf(int(shard)) == instance
}

// InstanceCount returns the number of shards at an instance of the node. It is 0 if id is not a
// member.
func (m *Map) InstanceCount(id NodeID, instance Instance) int {
	count := 0
	for shard := range m.Shards(id) {
		if m.instanceOf(int(shard)) == instance {
			count++
		}
	}
	return count
}

// OwnedSince returns the ownership epoch of the shard: the epoch of the map in which the current
// owner, a node and an instance, became its owner. It is 0 if the shard is orphaned, or if Assign has moved it and WithEpoch
// has not been called.
func (m *Map) OwnedSince(shard Shard) Epoch {
	if int(shard) >= len(m.since) {
		return 0
	}
	return m.since[shard]
}

// Members returns the members, sorted by id. The slice is shared: do not modify it.
func (m *Map) Members() []Member { return m.members }

// IsMember reports whether id is a member.
func (m *Map) IsMember(id NodeID) bool { return m.memberIndex(id) != noOwner }

// ShardCount returns the number of shards that id owns. It is 0 if id is not a member.
func (m *Map) ShardCount(id NodeID) int {
	if i := m.memberIndex(id); i != noOwner {
		return m.counts[i]
	}
	return 0
}

// OrphanCount returns the number of shards without an owner.
func (m *Map) OrphanCount() int { return m.orphans }

// Shards iterates over the shards that id owns, in ascending order.
func (m *Map) Shards(id NodeID) iter.Seq[Shard] {
	return func(yield func(Shard) bool) {
		i := m.memberIndex(id)
		if i == noOwner {
			return
		}
		for shard, owner := range m.owners {
			if int(owner) == i && !yield(Shard(shard)) {
				return
			}
		}
	}
}

// HasSameOwners reports whether m and other have the same members, weights, instances and owners.
// Their epochs may differ.
func (m *Map) HasSameOwners(other *Map) bool {
	return slices.Equal(m.members, other.members) && slices.Equal(m.owners, other.owners) && slices.Equal(m.instances, other.instances)
}

// WithEpoch returns m as the map of the given epoch that follows base. The ownership epoch of a
// shard becomes
//
//   - that in base, if the shard has the same owner and instance in base;
//   - 0, if the shard is orphaned;
//   - epoch, otherwise.
//
// WithEpoch ignores the ownership epochs in m, so the result does not depend on which node called
// Assign. Shards that base does not have count as orphaned in base. WithEpoch panics if epoch <
// base.Epoch(): log indexes only grow, and a smaller ownership epoch would defeat fencing.
func (m *Map) WithEpoch(base *Map, epoch Epoch) *Map {
	if epoch < base.epoch {
		panic(fmt.Sprintf("shardmap: WithEpoch at epoch %d, before the epoch %d of the base map", epoch, base.epoch))
	}
	next := *m
	next.epoch = epoch
	next.since = make([]Epoch, len(m.owners))
	fromBase := base.translationTo(m.members)
	for shard, owner := range m.owners {
		if owner == noOwner {
			continue
		}
		isSameOwner := shard < base.Len() && fromBase.newIndex(base.owners[shard]) == owner
		if isSameOwner && base.instanceOf(shard) == m.instanceOf(shard) {
			next.since[shard] = base.since[shard]
		} else {
			next.since[shard] = epoch
		}
	}
	return &next
}

// memberIndex returns the index of id in members, or noOwner if id is not a member.
func (m *Map) memberIndex(id NodeID) int {
	i, ok := slices.BinarySearchFunc(m.members, id, func(member Member, id NodeID) int {
		return cmp.Compare(member.ID, id)
	})
	if !ok {
		return noOwner
	}
	return i
}

// updateCounts sets counts and orphans from owners.
func (m *Map) updateCounts() {
	m.counts = make([]int, len(m.members))
	m.orphans = 0
	for _, owner := range m.owners {
		if owner == noOwner {
			m.orphans++
		} else {
			m.counts[owner]++
		}
	}
}

// translation converts owner indexes of one map to owner indexes of a map with other members. It
// allows comparing whole maps without one string comparison per shard. Its last element stands for
// noOwner.
type translation []int16

// translationTo returns the translation from the owner indexes of m to indexes in members, which
// must be sorted by id.
func (m *Map) translationTo(members []Member) translation {
	converted := make(translation, len(m.members)+1)
	target := &Map{members: members}
	for i, member := range m.members {
		converted[i] = int16(target.memberIndex(member.ID))
	}
	converted[len(m.members)] = noOwner
	return converted
}

// newIndex returns the new index for oldIndex. It returns noOwner for noOwner, and if the member no
// longer exists.
func (t translation) newIndex(oldIndex int16) int16 {
	if oldIndex == noOwner {
		return noOwner
	}
	return t[oldIndex]
}
