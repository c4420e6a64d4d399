package shardmap

import (
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// quota is the division of the shards of a stage among members by their weights: a
// member's share, with what is placed, is left times its weight through total.
type quota struct {
	weight, base, most []int // by member; most is what it may own in all
	active             []int16
	left, total        int
}

// unlimited is most of a member that may get any number of shards.
const unlimited = MaxShards

// settle takes out of the division those whose share would be less than what is
// placed with them, or more than they may own: they get just that, and the others
// share what is left (the way in which CSS resolves flexible lengths). What it does
// not mention in bound stays active.
func (q *quota) settle(bound func(i int16, total int)) {
	for {
		// By how much shares must be raised, less by how much they must be lowered:
		// if that is above zero, those that are raised are so for certain.
		raise := 0
		for _, i := range q.active {
			share := q.left * q.weight[i]
			raise += max(q.base[i]*q.total-share, 0) - max(share-q.most[i]*q.total, 0)
		}
		left, total := q.left, q.total
		kept := q.active[:0]
		for _, i := range q.active {
			share := left * q.weight[i]
			switch {
			case share < q.base[i]*total && raise >= 0:
				q.fix(i, q.base[i], bound)
			case share > q.most[i]*total && raise <= 0:
				q.fix(i, q.most[i], bound)
			default:
				kept = append(kept, i)
			}
		}
		fixed := len(q.active) - len(kept)
		q.active = kept
		if fixed == 0 {
			return
		}
	}
}

func (q *quota) fix(i int16, n int, bound func(i int16, total int)) {
	q.left -= n
	q.total -= q.weight[i]
	bound(i, n)
}

// targets returns how many of the n shards of a stage each of its members shall own:
// its weighted quota, or what of that is not placed with it already, rounded down, or
// up for as many as it takes to place all shards. A quota that is whole is never
// rounded up.
//
// A shut member keeps what it owns up to its quota, rounded up: who gives up less is
// asked for no more the next time. The others divide what is left.
func (pl *placement) targets(n int, members []int16, owned []int) []int {
	target := make([]int, len(pl.m.members))
	bound := func(i int16, total int) { target[i] = total - pl.base[i] }
	open := members
	if slices.Contains(pl.shut, true) {
		q := pl.quota(n, members, owned)
		q.settle(bound)
		for _, i := range q.active {
			bound(i, (q.left*q.weight[i]+q.total-1)/q.total)
		}
		open = nil
		for _, i := range members {
			if pl.shut[i] {
				n -= target[i]
			} else {
				open = append(open, i)
			}
		}
	}
	q := pl.quota(n, open, owned)
	q.settle(bound)
	for i, total := range pl.round(q, owned) {
		bound(i, total)
	}
	return target
}

func (pl *placement) quota(n int, members []int16, owned []int) *quota {
	k := len(pl.m.members)
	q := &quota{weight: make([]int, k), base: pl.base, most: make([]int, k), active: slices.Clone(members), left: n}
	for _, i := range members {
		q.weight[i], q.most[i] = int(pl.m.members[i].Weight), unlimited
		if pl.shut[i] {
			q.most[i] = pl.base[i] + owned[i]
		}
		q.left += pl.base[i]
		q.total += q.weight[i]
	}
	return q
}

// round returns whole numbers for the shares of a division.
//
// Rounding up a member that already owns more than its floor saves one move, and
// any other saves none, so those come first and the sum of moves is least. Among
// equals the largest remainder wins, then a hash of the id, so that the extra
// shard does not always go to the first in the alphabet.
func (pl *placement) round(q *quota, owned []int) map[int16]int {
	type fraction struct {
		member    int16
		saves     int // 1 if rounding up saves a move
		remainder int
		hash      uint64
	}
	whole := make(map[int16]int, len(q.active))
	left := q.left
	var up []fraction
	for _, i := range q.active {
		share := q.left * q.weight[i]
		whole[i] = share / q.total
		left -= whole[i]
		if rem := share % q.total; rem > 0 {
			f := fraction{member: i, remainder: rem, hash: xxhash.Sum64String(string(pl.m.members[i].ID))}
			if pl.base[i]+owned[i] > whole[i] {
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
		whole[f.member]++
	}
	return whole
}
