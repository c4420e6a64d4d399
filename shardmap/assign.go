package shardmap

import (
	"cmp"
	"math/bits"
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
	var r receivers
	for i, mb := range m.members {
		if want := target[i] - m.counts[i]; want > 0 {
			r.add(i, xxhash.Sum64String(string(mb.ID)), want)
		}
	}
	if len(r.member) == 0 {
		return
	}
	m.giveUp(target, &r)
	for s, o := range m.owners {
		if o == none {
			m.owners[s] = r.take(salt(s))
		}
	}
}

// giveUp orphans what members own above their target. A member gives up the
// shards that a receiver scores highest: a node that was away and is back so
// gets much of what it had before, while its caches or files may still be of use.
func (m *Map) giveUp(target []int, r *receivers) {
	// One bucket of owned shards for each member above its target.
	bucket := make([][]uint64, len(m.members))
	for i, n := range m.counts {
		if n > target[i] {
			bucket[i] = make([]uint64, 0, n)
		}
	}
	for s, o := range m.owners {
		if o == none || bucket[o] == nil {
			continue
		}
		var score uint64
		if target[o] > 0 { // else all of them go and need no order
			_, score = r.best(salt(s))
		}
		// The shard is the low 16 bits: keys are distinct, and sort without a
		// comparison function.
		bucket[o] = append(bucket[o], score&^(MaxShards-1)|uint64(s))
	}
	for i, keys := range bucket {
		if keys == nil {
			continue
		}
		slices.Sort(keys)
		for _, k := range keys[target[i]:] {
			m.owners[k%MaxShards] = none
		}
	}
}

// receivers are the members below their target. Two slices run in parallel, so
// that the loop over all of them touches nothing but hashes.
type receivers struct {
	hash   []uint64
	member []receiver
}

type receiver struct {
	index int16
	wants int
}

func (r *receivers) add(index int, hash uint64, wants int) {
	r.hash = append(r.hash, hash)
	r.member = append(r.member, receiver{index: int16(index), wants: wants})
}

// best returns the place of the receiver with the highest rendezvous score for a
// shard, and that score. Equal scores go to the lower id.
func (r *receivers) best(salt uint64) (at int, score uint64) {
	at = none
	for i, h := range r.hash {
		hi, lo := bits.Mul64(h^salt, 0x9e3779b97f4a7c15)
		if v := hi ^ lo; v > score || at == none {
			at, score = i, v
		}
	}
	return at, score
}

// take gives a shard to the best receiver and returns its index. It panics if
// none is left: as many shards are free as the receivers want.
func (r *receivers) take(salt uint64) int16 {
	at, _ := r.best(salt)
	rc := &r.member[at]
	index := rc.index
	if rc.wants--; rc.wants == 0 {
		r.hash = slices.Delete(r.hash, at, at+1)
		r.member = slices.Delete(r.member, at, at+1)
	}
	return index
}

// salt spreads a shard number over 64 bits (the finalizer of splitmix64), since
// neighbours would otherwise prefer the same nodes.
func salt(s int) uint64 {
	z := (uint64(s) + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
