package shardmap

import (
	"slices"

	"github.com/cespare/xxhash/v2"
)

// maxPairChecks bounds the work of spreadBarred. After that many checks of a pair of members it
// stops, and the placement stays as even as it is then. Clusters of up to 200 nodes never reach the
// bound.
const maxPairChecks = 1 << 26

// violatesBarred reports whether a shard was placed on a member that is barred from it. before
// contains the owners before the placement.
func (m *Map) violatesBarred(before []int16, barred map[NodeID]ShardSet) bool {
	sets := m.barredSets(barred)
	for s, o := range m.owners {
		if o != noOwner && o != before[s] && sets[o].Has(Shard(s)) {
			return true
		}
	}
	return false
}

// barredSets returns the sets in barred by member index.
func (m *Map) barredSets(barred map[NodeID]ShardSet) []ShardSet {
	sets := make([]ShardSet, len(m.members))
	for i, mb := range m.members {
		sets[i] = barred[mb.ID]
	}
	return sets
}

// canReceive reports whether shard s can be placed on member i, which does not own it.
func (pl *placement) canReceive(i int16, s int) bool {
	return pl.barred == nil || !pl.barred[i].Has(Shard(s))
}

// class is a set of shards of one owner that are interchangeable for spreadBarred.
type class struct {
	classKey
	shards []int32
}

type classKey struct {
	barred   string // bit set of the members that are barred from the shards
	previous int16  // owner before the current owner, or noOwner
	unowned  bool   // the shards were orphaned or have moved already, so another move is free
}

// balancer is the state of spreadBarred for the members of one stage. All slices are indexed by the
// position of the member in members.
type balancer struct {
	pl         *placement
	members    []int16
	load       []int // number of shards, of all stages
	weight     []int
	minLoad    []int // a cordoned member sends shards only while its load is above this value
	cordoned   []bool
	hash       []uint64           // hash of the id
	classes    [][]class          // classes of shards by owner
	classIndex []map[classKey]int // index in classes, by owner
	exhausted  [][]bool           // by owner and receiver: the owner has no shard that the receiver can own
}

// spreadBarred places the shards of a stage on the given members, sorted by index, if members are
// barred from shards. A barred member receives a shard only if it is orphaned and all other members
// are barred as well.
//
// An orphaned shard goes to the member with the lowest load relative to its weight. Then shards
// move one at a time from the member with the highest relative load to the one with the lowest.
// This continues as long as the sender has a shard that the receiver is not barred from, and the
// move reduces the sum of load²/weight. So no single move can make the result more even, the last
// moves cannot be omitted, and another call with the result moves nothing.
func (pl *placement) spreadBarred(stage int16, members []int16) {
	b := pl.newBalancer(stage, members)
	for checks := 0; checks < maxPairChecks; {
		n, moved := b.moveOne()
		if checks += n; !moved {
			break
		}
	}
	for u, classes := range b.classes {
		for _, c := range classes {
			for _, s := range c.shards {
				pl.fixOwner(int(s), members[u])
			}
		}
	}
}

// newBalancer groups the shards of the stage by owner and class, and places the orphaned shards.
func (pl *placement) newBalancer(stage int16, members []int16) *balancer {
	k := len(members)
	b := &balancer{pl: pl, members: members, load: make([]int, k), weight: make([]int, k), minLoad: make([]int, k), cordoned: make([]bool, k), hash: make([]uint64, k), classes: make([][]class, k), classIndex: make([]map[classKey]int, k), exhausted: make([][]bool, k)}
	place := make(map[int16]int, k)
	owned, n := make([]int, len(pl.m.members)), 0
	for u, i := range members {
		place[i], b.classIndex[u] = u, map[classKey]int{}
		b.hash[u] = xxhash.Sum64String(string(pl.m.members[i].ID))
		b.weight[u], b.cordoned[u], b.exhausted[u] = int(pl.m.members[i].Weight), pl.cordoned[i], make([]bool, k)
	}
	var unowned []int
	for s, st := range pl.stage {
		if st != stage {
			continue
		}
		n++
		o := pl.m.owners[s]
		if o == noOwner {
			unowned = append(unowned, s)
			continue
		}
		owned[o]++
		b.addShard(place[o], s, b.barredMask(s), false)
	}
	target := pl.targets(n, members, owned)
	for u, i := range members {
		b.load[u] = pl.fixed[i] + owned[i]
		b.minLoad[u] = pl.fixed[i] + target[i]
	}
	for _, s := range unowned {
		mask := b.barredMask(s)
		u := b.leastLoaded(s, mask)
		if u < 0 { // all members that can receive shards are barred
			mask = string(make([]byte, len(mask)))
			u = b.leastLoaded(s, mask)
		}
		b.load[u]++
		b.addShard(u, s, mask, true)
	}
	return b
}

// barredMask returns a bit set of the members of the stage that are barred from shard s.
func (b *balancer) barredMask(s int) string {
	mask := make([]byte, (len(b.members)+7)/8)
	for u, i := range b.members {
		if !b.pl.canReceive(i, s) {
			mask[u/8] |= 1 << (u % 8)
		}
	}
	return string(mask)
}

// isSet reports whether bit u of mask is set.
func isSet(mask string, u int) bool { return mask[u/8]>>(u%8)&1 == 1 }

// addShard adds shard s to its class of member u.
func (b *balancer) addShard(u, s int, mask string, unowned bool) {
	key := classKey{barred: mask, previous: noOwner, unowned: unowned}
	if b.pl.previous != nil {
		key.previous = b.pl.previous[s]
	}
	at, known := b.classIndex[u][key]
	if !known {
		at = len(b.classes[u])
		b.classIndex[u][key] = at
		b.classes[u] = append(b.classes[u], class{classKey: key})
	}
	b.classes[u][at].shards = append(b.classes[u][at].shards, int32(s))
}

// leastLoaded returns the member with the lowest load relative to its weight that can receive shard
// s. A hash decides between equals. The result is negative if all members are barred or cordoned.
func (b *balancer) leastLoaded(s int, mask string) int {
	best, bestScore := -1, uint64(0)
	for v := range b.members {
		if b.cordoned[v] || isSet(mask, v) {
			continue
		}
		score := (b.hash[v] ^ hashShard(s)) * hashShard(s)
		if best >= 0 {
			if d := b.receiveCost(v)*b.weight[best] - b.receiveCost(best)*b.weight[v]; d > 0 || d == 0 && score <= bestScore {
				continue
			}
		}
		best, bestScore = v, score
	}
	return best
}

// receiveCost returns the increase of load² if member v receives one more shard.
func (b *balancer) receiveCost(v int) int { return 2*b.load[v] + 1 }

// sendGain returns the decrease of load² if member u loses one shard.
func (b *balancer) sendGain(u int) int { return 2*b.load[u] - 1 }

// moveOne moves one shard from the member with the highest relative load to the one with the lowest
// that can receive one of its shards. It reports whether a shard moved, and how many pairs of
// members it checked.
func (b *balancer) moveOne() (checks int, moved bool) {
	from, to := b.orderBy(b.sendGain), b.orderBy(b.receiveCost)
	slices.Reverse(from)
	for _, v := range to {
		if b.cordoned[v] {
			continue
		}
		for _, u := range from {
			checks++
			if b.sendGain(u)*b.weight[v] <= b.receiveCost(v)*b.weight[u] {
				break // the following members have a lower load, so their moves do not help either
			}
			if b.exhausted[u][v] || b.cordoned[u] && b.load[u] <= b.minLoad[u] {
				continue
			}
			if b.transfer(u, v) {
				return checks, true
			}
			b.exhausted[u][v] = true
		}
	}
	return checks, false
}

// orderBy returns the members sorted by cost relative to their weight, ascending.
func (b *balancer) orderBy(cost func(int) int) []int {
	all := make([]int, len(b.members))
	for u := range all {
		all[u] = u
	}
	slices.SortStableFunc(all, func(u, v int) int { return cost(u)*b.weight[v] - cost(v)*b.weight[u] })
	return all
}

// transfer moves a shard from u to v, and reports whether u had a shard that v can receive. The
// first choice is a shard that has moved already, and the second one a shard that v owned before u.
func (b *balancer) transfer(u, v int) bool {
	best, bestRank := -1, 3
	for i, c := range b.classes[u] {
		if len(c.shards) == 0 || isSet(c.barred, v) {
			continue
		}
		rank := 2
		switch {
		case c.unowned:
			rank = 0
		case c.previous == b.members[v]:
			rank = 1
		}
		if rank < bestRank {
			best, bestRank = i, rank
		}
	}
	if best < 0 {
		return false
	}
	c := &b.classes[u][best]
	s := c.shards[0]
	c.shards = c.shards[1:]
	b.load[u]--
	b.load[v]++
	clear(b.exhausted[v])
	b.addShard(v, int(s), c.barred, true)
	return true
}
