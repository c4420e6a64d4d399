package shardmap

import (
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Assign derives from prev the map in which members own the shards. It is pure:
// the same prev and the same members, in whatever order, give the same map.
//
// Every count differs from the member's weighted quota by less than one shard,
// and the number of shards that change hands is the least that allows: the
// orphans plus what members own above their target, with the targets rounded so
// that this is smallest. A member of prev that is not in members loses its
// shards; with no members at all every shard is orphaned.
//
// The result keeps prev's epoch, and its ownership epochs for shards that stay;
// shards that move have ownership epoch 0 until Settle. What Check complains
// about is bent into shape: weights go to the nearest bound, of two members with
// one id the heavier counts, ids that do not fit are left out, and so are the
// last ones by id beyond MaxMembers.
//
// It costs about one multiplication for each shard that moves and each member
// that gains.
func Assign(prev *Map, members []Member) *Map {
	m := &Map{
		epoch:   prev.epoch,
		members: normal(members),
		owners:  make([]int16, prev.Len()),
		since:   make([]Epoch, prev.Len()),
	}
	stays := prev.translate(m.members)
	for s, o := range prev.owners {
		m.owners[s] = stays.of(o)
	}
	m.tally()
	if len(m.members) > 0 {
		m.rebalance(targets(m.Len(), m.members, m.counts))
		m.tally()
	}
	for s, o := range prev.owners {
		if m.owners[s] != none && m.owners[s] == stays.of(o) {
			m.since[s] = prev.since[s]
		}
	}
	return m
}

// targets returns how many shards each member shall own: its weighted quota
// rounded down, or up for as many as it takes to place all shards. A quota that
// is whole is never rounded up.
//
// Rounding up a member that already owns more than its floor saves one move, and
// any other saves none, so those come first and the sum of moves is least. Among
// equals the largest remainder wins, then a hash of the id, so that the extra
// shard does not always go to the first in the alphabet.
func targets(shards int, members []Member, owned []int) []int {
	var total uint64
	for _, mb := range members {
		total += uint64(mb.Weight)
	}
	type fraction struct {
		member    int
		saves     int // 1 if rounding up saves a move
		remainder uint64
		hash      uint64
	}
	target := make([]int, len(members))
	left := shards
	var up []fraction
	for i, mb := range members {
		share := uint64(shards) * uint64(mb.Weight)
		target[i] = int(share / total)
		left -= target[i]
		if rem := share % total; rem > 0 {
			f := fraction{member: i, remainder: rem, hash: xxhash.Sum64String(string(mb.ID))}
			if owned[i] > target[i] {
				f.saves = 1
			}
			up = append(up, f)
		}
	}
	slices.SortFunc(up, func(a, b fraction) int {
		return cmp.Or(
			cmp.Compare(b.saves, a.saves),
			cmp.Compare(b.remainder, a.remainder),
			cmp.Compare(b.hash, a.hash),
			cmp.Compare(a.member, b.member),
		)
	})
	// The remainders add up to left quotas and each is less than one, so up has
	// at least left elements.
	for _, f := range up[:left] {
		target[f.member]++
	}
	return target
}

// rebalance brings every member to its target: members above give up shards,
// which go with the orphans to the members below. counts must be right before;
// they are not kept right.
func (m *Map) rebalance(target []int) {
	r := receivers{wants: make([]int, len(m.members)), first: make([]int16, len(m.owners))}
	for i, mb := range m.members {
		if r.wants[i] = target[i] - m.counts[i]; r.wants[i] > 0 {
			r.index = append(r.index, int16(i))
			r.hash = append(r.hash, xxhash.Sum64String(string(mb.ID)))
		}
	}
	if len(r.index) == 0 {
		return // whoever is above its target leaves another below
	}
	for s := range r.first {
		r.first[s] = none
	}
	m.giveUp(target, &r)
	for s, o := range m.owners {
		if o == none {
			m.owners[s] = r.take(s)
		}
	}
}

// giveUp orphans what members own above their target. A member gives up the
// shards that a receiver scores highest, so a node that was away and is back gets
// much of what it had before, while its caches or files may still be of use.
func (m *Map) giveUp(target []int, r *receivers) {
	// One bucket of owned shards for each member above its target.
	bucket := make([][]uint64, len(m.members))
	for i, n := range m.counts {
		if n > target[i] {
			bucket[i] = make([]uint64, 0, n)
		}
	}
	for s, o := range m.owners {
		if o != none && bucket[o] != nil {
			// The shard makes the low 16 bits of the score: no two are equal.
			bucket[o] = append(bucket[o], r.best(s)&^(MaxShards-1)|uint64(s))
		}
	}
	for i, keys := range bucket {
		if keys == nil {
			continue
		}
		split(keys, target[i])
		for _, k := range keys[target[i]:] {
			m.owners[k%MaxShards] = none
		}
	}
}

// split reorders keys, no two of which are equal, so that the n smallest come
// first (quickselect): linear, where sorting a member that owns all of 65 536
// shards takes longer than the rest of Assign. The keys are hashes, so the middle
// one is as good a pivot as any.
func split(keys []uint64, n int) {
	for n > 0 && n < len(keys) {
		pivot := keys[len(keys)/2]
		i, j := 0, len(keys)-1
		for i <= j {
			for keys[i] < pivot {
				i++
			}
			for keys[j] > pivot {
				j--
			}
			if i <= j {
				keys[i], keys[j] = keys[j], keys[i]
				i++
				j--
			}
		}
		// keys[:j+1] ≤ pivot ≤ keys[i:], and what lies between equals the pivot.
		switch {
		case n <= j:
			keys = keys[:j+1]
		case n > i:
			keys, n = keys[i:], n-i
		default:
			return
		}
	}
}
