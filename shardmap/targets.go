package shardmap

import (
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// quotas divides the shards of a stage among members in proportion to their weights. The share of a
// member, including its already placed shards, is remaining * weight / totalWeight.
type quotas struct {
	// By member.
	weight        []int
	alreadyPlaced []int // number of shards assigned to the member in earlier stages; the lower bound
	limit         []int // maximum number of shards, including alreadyPlaced; the upper bound

	active      []int16 // members whose share violates no bound
	remaining   int     // shards to divide among the active members, including their already placed ones
	totalWeight int     // sum of the weights of the active members
}

// unlimited is the limit of a member that can own any number of shards.
const unlimited = MaxShards

// applyBounds removes members from active whose share would be less than their already placed shards
// or more than their limit, and calls setTotal with the bound that they get instead. The other members
// share the rest. This is the algorithm by which CSS resolves flexible lengths. Members for which
// setTotal is not called stay active.
func (q *quotas) applyBounds(setTotal func(i int16, total int)) {
	for changed := true; changed; {
		changed = q.applyViolatedBounds(setTotal)
	}
}

// applyViolatedBounds is one step of applyBounds. It returns false if no share violates a bound.
//
// If the members below their lower bounds miss more shards than the members above their upper bounds
// have too many, then the violated lower bounds are final: the other members can only get less.
// Otherwise the violated upper bounds are final.
func (q *quotas) applyViolatedBounds(setTotal func(i int16, total int)) (changed bool) {
	shortfall := 0 // all values are multiplied by totalWeight, to avoid divisions
	for _, i := range q.active {
		share := q.remaining * q.weight[i]
		missing := max(q.alreadyPlaced[i]*q.totalWeight-share, 0)
		surplus := max(share-q.limit[i]*q.totalWeight, 0)
		shortfall += missing - surplus
	}
	remaining, totalWeight := q.remaining, q.totalWeight // before this step
	active := q.active[:0]
	for _, i := range q.active {
		share := remaining * q.weight[i]
		belowBound := share < q.alreadyPlaced[i]*totalWeight
		aboveBound := share > q.limit[i]*totalWeight
		switch {
		case belowBound && shortfall >= 0:
			q.fix(i, q.alreadyPlaced[i], setTotal)
		case aboveBound && shortfall <= 0:
			q.fix(i, q.limit[i], setTotal)
		default:
			active = append(active, i)
		}
	}
	changed = len(active) < len(q.active)
	q.active = active
	return changed
}

// fix gives member i exactly total shards and removes it from the division.
func (q *quotas) fix(i int16, total int, setTotal func(i int16, total int)) {
	q.remaining -= total
	q.totalWeight -= q.weight[i]
	setTotal(i, total)
}

// targetCounts returns how many of the shards of a stage each member should own: its weighted quota,
// minus the shards already assigned to it in earlier stages. Quotas are rounded down. Then as many
// quotas as are needed to place all shards are rounded up, see roundShares. A quota that is a whole
// number is never rounded up.
//
// A cordoned member keeps its shards up to its quota, which is rounded up so that another call of
// Assign takes no more shards from it. The other members share the rest.
func (pl *placement) targetCounts(shards int, members []int16, ownedInStage []int) []int {
	target := make([]int, len(pl.shardMap.members)) // by member
	setTarget := func(i int16, total int) { target[i] = total - pl.alreadyPlaced[i] }
	var uncordoned []int16
	for _, i := range members {
		if !pl.cordoned[i] {
			uncordoned = append(uncordoned, i)
		}
	}
	if len(uncordoned) < len(members) {
		for i, total := range pl.cordonedTotals(pl.newQuotas(shards, members, ownedInStage)) {
			setTarget(i, total)
			shards -= target[i]
		}
	}
	quotas := pl.newQuotas(shards, uncordoned, ownedInStage)
	quotas.applyBounds(setTarget)
	for i, total := range pl.roundShares(quotas, ownedInStage) {
		setTarget(i, total)
	}
	return target
}

// cordonedTotals returns how many shards each cordoned member keeps, including its already placed ones:
// its quota, rounded up. quotas must divide the shards among all members, also the uncordoned ones.
func (pl *placement) cordonedTotals(quotas *quotas) map[int16]int {
	totals := map[int16]int{}
	setIfCordoned := func(i int16, total int) {
		if pl.cordoned[i] {
			totals[i] = total
		}
	}
	quotas.applyBounds(setIfCordoned)
	for _, i := range quotas.active {
		share := quotas.remaining * quotas.weight[i]
		setIfCordoned(i, (share+quotas.totalWeight-1)/quotas.totalWeight)
	}
	return totals
}

// newQuotas returns the division of shards among members. ownedInStage is the number of shards of this
// stage that each member owns.
func (pl *placement) newQuotas(shards int, members []int16, ownedInStage []int) *quotas {
	memberCount := len(pl.shardMap.members)
	quotas := &quotas{
		weight: make([]int, memberCount), alreadyPlaced: pl.alreadyPlaced, limit: make([]int, memberCount),
		active: slices.Clone(members), remaining: shards,
	}
	for _, i := range members {
		quotas.weight[i], quotas.limit[i] = pl.weights[i], unlimited
		if pl.cordoned[i] {
			quotas.limit[i] = pl.alreadyPlaced[i] + ownedInStage[i]
		}
		quotas.remaining += pl.alreadyPlaced[i]
		quotas.totalWeight += quotas.weight[i]
	}
	return quotas
}

// roundShares returns the shares of the active members as whole numbers.
//
// Rounding up saves one move for a member that already owns more than its rounded-down share, and
// none for other members, so these members come first, which minimizes the number of moves. Among
// equals the largest remainder wins, and then the member with the fewest shards of other services:
// otherwise one member could get the additional shards of all services. The last criterion is a hash
// of the id, so that the additional shard does not always go to the first member in alphabetical order.
func (pl *placement) roundShares(quotas *quotas, ownedInStage []int) map[int16]int {
	type fraction struct {
		member    int16
		saves     int // number of moves that rounding up saves: 1 or 0
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
		if remainder := share % quotas.totalWeight; remainder > 0 {
			f := fraction{member: i, remainder: remainder, hash: xxhash.Sum64String(string(pl.shardMap.members[i].ID))}
			if pl.alreadyPlaced[i]+ownedInStage[i] > shares[i] {
				f.saves = 1
			}
			roundUp = append(roundUp, f)
		}
	}
	slices.SortFunc(roundUp, func(a, b fraction) int {
		return cmp.Or(
			cmp.Compare(b.saves, a.saves),
			cmp.Compare(b.remainder, a.remainder),
			cmp.Compare(pl.ownedElsewhere[a.member], pl.ownedElsewhere[b.member]),
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
