package shardmap

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
)

// none is the owner index of an orphaned shard.
const noOwner = -1

// Map says which member owns each shard. It is immutable; use it as *Map.
type Map struct {
	epoch   Epoch
	members []Member // sorted by id, no id twice
	owners  []int16  // by shard: index into members, or noOwner
	since   []Epoch  // by shard: ownership epoch; 0 where orphaned
	counts  []int    // by member: shards owned
	orphans int
}

// New returns the map before the first one: epoch 0, no members, every shard
// orphaned. It panics unless 1 ≤ shards ≤ MaxShards.
func New(shards int) *Map {
	if shards < 1 || shards > MaxShards {
		panic(fmt.Sprintf("shardmap: %d shards, want 1 to %d", shards, MaxShards))
	}
	m := &Map{
		owners:  make([]int16, shards),
		since:   make([]Epoch, shards),
		orphans: shards,
	}
	for s := range m.owners {
		m.owners[s] = noOwner
	}
	return m
}

// Len returns the number of shards.
func (m *Map) Len() int { return len(m.owners) }

// Epoch returns the epoch the map was settled at. A map from Assign still has
// that of the map it was derived from.
func (m *Map) Epoch() Epoch { return m.epoch }

// Owner returns the node that serves s, or "" if s is orphaned. It panics unless
// s < m.Len(): shard numbers come from Of, so any other value is a bug in the
// caller.
func (m *Map) Owner(s Shard) NodeID {
	if i := m.owners[s]; i >= 0 {
		return m.members[i].ID
	}
	return ""
}

// OwnerIndex returns the owner of s as an index into Members, -1 if s is
// orphaned. It panics unless s < m.Len().
func (m *Map) OwnerIndex(s Shard) int { return int(m.owners[s]) }

// OwnedSince returns the ownership epoch of s: that of the map in which its
// present owner became its owner. It is 0 for an orphan, and for a shard that
// Assign gave to a new owner and Settle has not stamped. It panics unless
// s < m.Len().
func (m *Map) OwnedSince(s Shard) Epoch { return m.since[s] }

// Members returns the members sorted by id. The slice is shared: do not modify it.
func (m *Map) Members() []Member { return m.members }

// Has reports whether id is a member.
func (m *Map) Has(id NodeID) bool { return m.index(id) != noOwner }

// Count returns how many shards id owns: 0 for a stranger.
func (m *Map) Count(id NodeID) int {
	if i := m.index(id); i != noOwner {
		return m.counts[i]
	}
	return 0
}

// Orphans returns how many shards have no owner.
func (m *Map) Orphans() int { return m.orphans }

// Shards iterates over the shards that id owns, in ascending order.
func (m *Map) Shards(id NodeID) iter.Seq[Shard] {
	return func(yield func(Shard) bool) {
		i := m.index(id)
		if i == noOwner {
			return
		}
		for s, o := range m.owners {
			if int(o) == i && !yield(Shard(s)) {
				return
			}
		}
	}
}

// SameAs reports whether o has the same members, weights and owners. Epochs may
// differ.
func (m *Map) SameAs(o *Map) bool {
	return slices.Equal(m.members, o.members) && slices.Equal(m.owners, o.owners)
}

// Settle returns m as the map of epoch e that follows base. A shard that has the
// same owner as in base keeps base's ownership epoch, every other one gets e, an
// orphan 0. Whatever m itself said about ownership epochs is ignored, so it does
// not matter who computed it. Shards that base does not have count as orphaned
// there. It panics if e < base.Epoch(): log indexes only grow, and an ownership
// epoch that shrinks would break every fence.
func (m *Map) Settle(base *Map, e Epoch) *Map {
	if e < base.epoch {
		panic(fmt.Sprintf("shardmap: epoch %d settled after epoch %d", e, base.epoch))
	}
	out := *m
	out.epoch = e
	out.since = make([]Epoch, len(m.owners))
	was := base.translationTo(m.members)
	for s, o := range m.owners {
		switch {
		case o == noOwner:
		case s < base.Len() && was.convert(base.owners[s]) == o:
			out.since[s] = base.since[s]
		default:
			out.since[s] = e
		}
	}
	return &out
}

// index returns the place of id in members, or none.
func (m *Map) index(id NodeID) int {
	i, ok := slices.BinarySearchFunc(m.members, id, func(mb Member, id NodeID) int {
		return cmp.Compare(mb.ID, id)
	})
	if !ok {
		return noOwner
	}
	return i
}

// tally sets counts and orphans from owners.
func (m *Map) recount() {
	m.counts = make([]int, len(m.members))
	m.orphans = 0
	for _, o := range m.owners {
		if o == noOwner {
			m.orphans++
		} else {
			m.counts[o]++
		}
	}
}

// translation maps owner indexes of one map to those of another with other
// members, so that whole maps are compared without touching a string per shard.
// Its last element stands for none.
type translation []int16

// translate returns the translation from m's owner indexes to those of members,
// which are sorted.
func (m *Map) translationTo(members []Member) translation {
	t := make(translation, len(m.members)+1)
	to := &Map{members: members}
	for i, mb := range m.members {
		t[i] = int16(to.index(mb.ID))
	}
	t[len(m.members)] = noOwner
	return t
}

// of translates one owner index; none, and owners that are gone, give none.
func (t translation) convert(o int16) int16 {
	if o == noOwner {
		return noOwner
	}
	return t[o]
}
