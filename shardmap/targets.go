package shardmap

import (
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// quotas divides the shards of a stage among members in proportion to their weights. The share of a
// member, including its fixed shards, is remaining * weight / totalWeight.
type quotas struct {
	// By member.
	weight []int
	fixed  []int // number of shards whose owner is final; the lower bound
	limit  []int // maximum number of shards, including fixed ones; the upper bound

	active      []int16 // members whose share violates no bound
	remaining   int     // shards to divide among the active members, including their fixed ones
	totalWeight int     // sum of the weights of the active members
}

// unlimited is the limit of a member that can own any number of shards.
const unlimited = MaxShards

// applyBounds removes members from active whose share would be less than their fixed shards or more
// than their limit, and calls report with the bound that they get instead. The other members share
// the rest. This is the algorithm by which CSS resolves flexible lengths. Members for which report
// is not called stay active.
func (q *quotas) applyBounds(report func(i int16, total int)) {
	for changed := true; changed; {
		changed = q.applyViolatedBounds(report)
	}
}

// applyViolatedBounds is one step of applyBounds. It returns false if no share violates a bound.
//
// If the members below their lower bounds miss more shards than the members above their upper bounds
// have too many, then the violated lower bounds are final: the other members can only get less.
// Otherwise the violated upper bounds are final.
func (q *quotas) applyViolatedBounds(report func(i int16, total int)) (changed bool) {
	shortfall := 0 // all values are multiplied by totalWeight, to avoid divisions
	for _, i := range q.active {
		share := q.remaining * q.weight[i]
		missing := max(q.fixed[i]*q.totalWeight-share, 0)
		surplus := max(share-q.limit[i]*q.totalWeight, 0)
		shortfall += missing - surplus
	}
	remaining, totalWeight := q.remaining, q.totalWeight // before this step
	active := q.active[:0]
	for _, i := range q.active {
		share := remaining * q.weight[i]
		belowBound := share < q.fixed[i]*totalWeight
		aboveBound := share > q.limit[i]*totalWeight
		switch {
		case belowBound && shortfall >= 0:
			q.fix(i, q.fixed[i], report)
		case aboveBound && shortfall <= 0:
			q.fix(i, q.limit[i], report)
		default:
			active = append(active, i)
		}
	}
	changed = len(active) < len(q.active)
	q.active = active
	return changed
}

// fix gives member i exactly n shards and removes it from the division.
func (q *quotas) fix(i int16, n int, report func(i int16, total int)) {
	q.remaining -= n
	q.totalWeight -= q.weight[i]
	report(i, n)
}

// targets returns how many of the shards of a stage each member should own. It is the weighted
// quota, less the shards that are already fixed to the member, rounded down. It is rounded up for
// as many members as are needed to place all shards. A quota that is a whole number is never
// rounded up.
//
// A cordoned member keeps its shards up to its quota, which is rounded up so that another call of
// Assign takes no more shards from it. The other members share the rest.
func (pl *placement) targets(shards int, members []int16, owned []int) []int {
	target := make([]int, len(pl.m.members))
	setTarget := func(i int16, total int) { target[i] = total - pl.fixed[i] }
	var uncordoned []int16
	for _, i := range members {
		if !pl.cordoned[i] {
			uncordoned = append(uncordoned, i)
		}
	}
	if len(uncordoned) < len(members) {
		pl.setCordonedTargets(pl.newQuotas(shards, members, owned), setTarget)
		for _, i := range members {
			if pl.cordoned[i] {
				shards -= target[i]
			}
		}
	}
	quotas := pl.newQuotas(shards, uncordoned, owned)
	quotas.applyBounds(setTarget)
	for i, total := range pl.roundShares(quotas, owned) {
		setTarget(i, total)
	}
	return target
}

// setCordonedTargets reports the quotas of all members, rounded up. Only those of cordoned members
// are final.
func (pl *placement) setCordonedTargets(quotas *quotas, report func(i int16, total int)) {
	quotas.applyBounds(report)
	for _, i := range quotas.active {
		share := quotas.remaining * quotas.weight[i]
		report(i, (share+quotas.totalWeight-1)/quotas.totalWeight)
	}
}

// newQuotas returns the division of shards among members. owned is the number of shards of this
// stage that each member owns.
func (pl *placement) newQuotas(shards int, members []int16, owned []int) *quotas {
	memberCount := len(pl.m.members)
	quotas := &quotas{
		weight: make([]int, memberCount), fixed: pl.fixed, limit: make([]int, memberCount),
		active: slices.Clone(members), remaining: shards,
	}
	for _, i := range members {
		quotas.weight[i], quotas.limit[i] = int(pl.m.members[i].Weight), unlimited
		if pl.cordoned[i] {
			quotas.limit[i] = pl.fixed[i] + owned[i]
		}
		quotas.remaining += pl.fixed[i]
		quotas.totalWeight += quotas.weight[i]
	}
	return quotas
}

// roundShares returns the shares of the active members as whole numbers.
//
// Rounding up saves one move for a member that already owns more than its rounded-down share, and
// none for other members. So these members come first, which minimizes the number of moves. Among
// equals the largest remainder wins, and then a hash of the id, so that the additional shard does
// not always go to the first member in alphabetical order.
func (pl *placement) roundShares(quotas *quotas, owned []int) map[int16]int {
	type fraction struct {
		member    int16
		saves     int // 1 if rounding up saves a move, otherwise 0
		remainder int
		hash      uint64
	}
	shares := make(map[int16]int, len(quotas.active))
	unplaced := quotas.remaining
	var roundUp []fraction
	for _, i := range quotas.active {
		share := quotas.remaining * quotas.weight[i]
		shares[i] = share / quotas.totalWeight
		unplaced -= shares[i]
		if rem := share % quotas.totalWeight; rem > 0 {
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
	// The remainders add up to unplaced shards and each is less than one shard, so roundUp has at
	// least unplaced elements.
	for _, f := range roundUp[:unplaced] {
		shares[f.member]++
	}
	return shares
}
