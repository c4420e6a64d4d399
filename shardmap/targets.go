package shardmap

import (
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// quota is the division of the shards of a stage among members by their weights: a
// member's share, with what is placed, is left times its weight through total.
type quotas struct {
	weight, fixed, limit   []int // by member; most is what it may own in all
	active                 []int16
	remaining, totalWeight int
}

// unlimited is most of a member that may get any number of shards.
const unlimited = MaxShards

// settle takes out of the division those whose share would be less than what is
// placed with them, or more than they may own: they get just that, and the others
// share what is left (the way in which CSS resolves flexible lengths). What it does
// not mention in report stays active.
func (q *quotas) applyBounds(report func(i int16, total int)) {
	for {
		// By how much shares must be raised, less by how much they must be lowered:
		// if that is above zero, those that are raised are so for certain.
		shortfall := 0
		for _, i := range q.active {
			share := q.remaining * q.weight[i]
			shortfall += max(q.fixed[i]*q.totalWeight-share, 0) - max(share-q.limit[i]*q.totalWeight, 0)
		}
		left, total := q.remaining, q.totalWeight
		active := q.active[:0]
		for _, i := range q.active {
			share := left * q.weight[i]
			switch {
			case share < q.fixed[i]*total && shortfall >= 0:
				q.assign(i, q.fixed[i], report)
			case share > q.limit[i]*total && shortfall <= 0:
				q.assign(i, q.limit[i], report)
			default:
				active = append(active, i)
			}
		}
		fixed := len(q.active) - len(active)
		q.active = active
		if fixed == 0 {
			return
		}
	}
}

func (q *quotas) assign(i int16, n int, report func(i int16, total int)) {
	q.remaining -= n
	q.totalWeight -= q.weight[i]
	report(i, n)
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
	report := func(i int16, total int) { target[i] = total - pl.fixed[i] }
	open := members
	if slices.Contains(pl.cordoned, true) {
		q := pl.newQuotas(n, members, owned)
		q.applyBounds(report)
		for _, i := range q.active {
			report(i, (q.remaining*q.weight[i]+q.totalWeight-1)/q.totalWeight)
		}
		open = nil
		for _, i := range members {
			if pl.cordoned[i] {
				n -= target[i]
			} else {
				open = append(open, i)
			}
		}
	}
	q := pl.newQuotas(n, open, owned)
	q.applyBounds(report)
	for i, total := range pl.roundShares(q, owned) {
		report(i, total)
	}
	return target
}

func (pl *placement) newQuotas(n int, members []int16, owned []int) *quotas {
	k := len(pl.m.members)
	q := &quotas{weight: make([]int, k), fixed: pl.fixed, limit: make([]int, k), active: slices.Clone(members), remaining: n}
	for _, i := range members {
		q.weight[i], q.limit[i] = int(pl.m.members[i].Weight), unlimited
		if pl.cordoned[i] {
			q.limit[i] = pl.fixed[i] + owned[i]
		}
		q.remaining += pl.fixed[i]
		q.totalWeight += q.weight[i]
	}
	return q
}

// round returns whole numbers for the shares of a division.
//
// Rounding up a member that already owns more than its floor saves one move, and
// any other saves none, so those come first and the sum of moves is least. Among
// equals the largest remainder wins, then a hash of the id, so that the extra
// shard does not always go to the first in the alphabet.
func (pl *placement) roundShares(q *quotas, owned []int) map[int16]int {
	type fraction struct {
		member    int16
		saves     int // 1 if rounding up saves a move
		remainder int
		hash      uint64
	}
	shares := make(map[int16]int, len(q.active))
	left := q.remaining
	var roundUp []fraction
	for _, i := range q.active {
		share := q.remaining * q.weight[i]
		shares[i] = share / q.totalWeight
		left -= shares[i]
		if rem := share % q.totalWeight; rem > 0 {
			f := fraction{member: i, remainder: rem, hash: xxhash.Sum64String(string(pl.m.members[i].ID))}
			if pl.fixed[i]+owned[i] > shares[i] {
				f.saves = 1
			}
			roundUp = append(roundUp, f)
		}
	}
	slices.SortFunc(roundUp, func(a, b fraction) int {
		return cmp.Or(
			cmp.Compare(b.saves, a.saves),
			cmp.Compare(b.remainder, a.remainder),
			cmp.Compare(b.hash, a.hash),
			cmp.Compare(a.member, b.member),
		)
	})
	// The remainders add up to left quotas and each is less than one, so up has
	// at least left elements.
	for _, f := range roundUp[:left] {
		shares[f.member]++
	}
	return shares
}
