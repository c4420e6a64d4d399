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
	for shard, owner := range m.owners {
		if owner != noOwner && owner != before[shard] && sets[owner].Has(Shard(shard)) {
			return true
		}
	}
	return false
}

// barredSets returns the sets in barred by member index.
func (m *Map) barredSets(barred map[NodeID]ShardSet) []ShardSet {
	sets := make([]ShardSet, len(m.members))
	for i, member := range m.members {
		sets[i] = barred[member.ID]
	}
	return sets
}

// canReceive reports whether the shard can be placed on member i, which does not own it.
func (pl *placement) canReceive(i int16, shard int) bool {
	return pl.barred == nil || !pl.barred[i].Has(Shard(shard))
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
	balancer := pl.newBalancer(stage, members)
	for checks := 0; checks < maxPairChecks; {
		n, moved := balancer.moveOne()
		if checks += n; !moved {
			break
		}
	}
	for u, classes := range balancer.classes {
		for _, c := range classes {
			for _, shard := range c.shards {
				pl.fixOwner(int(shard), members[u])
			}
		}
	}
}

// newBalancer groups the shards of the stage by owner and class, and places the orphaned shards.
func (pl *placement) newBalancer(stage int16, members []int16) *balancer {
	memberCount := len(members)
	balancer := &balancer{pl: pl, members: members, load: make([]int, memberCount), weight: make([]int, memberCount), minLoad: make([]int, memberCount), cordoned: make([]bool, memberCount), hash: make([]uint64, memberCount), classes: make([][]class, memberCount), classIndex: make([]map[classKey]int, memberCount), exhausted: make([][]bool, memberCount)}
	positions := make(map[int16]int, memberCount)
	owned, shards := make([]int, len(pl.m.members)), 0
	for position, i := range members {
		positions[i], balancer.classIndex[position] = position, map[classKey]int{}
		balancer.hash[position] = xxhash.Sum64String(string(pl.m.members[i].ID))
		balancer.weight[position], balancer.cordoned[position], balancer.exhausted[position] = int(pl.m.members[i].Weight), pl.cordoned[i], make([]bool, memberCount)
	}
	var unowned []int
	for shard, shardStage := range pl.stage {
		if shardStage != stage {
			continue
		}
		shards++
		owner := pl.m.owners[shard]
		if owner == noOwner {
			unowned = append(unowned, shard)
			continue
		}
		owned[owner]++
		balancer.addShard(positions[owner], shard, balancer.barredMask(shard), false)
	}
	target := pl.targets(shards, members, owned)
	for position, i := range members {
		balancer.load[position] = pl.fixed[i] + owned[i]
		balancer.minLoad[position] = pl.fixed[i] + target[i]
	}
	for _, shard := range unowned {
		mask := balancer.barredMask(shard)
		position := balancer.leastLoaded(shard, mask)
		if position < 0 { // all members that can receive shards are barred
			mask = string(make([]byte, len(mask)))
			position = balancer.leastLoaded(shard, mask)
		}
		balancer.load[position]++
		balancer.addShard(position, shard, mask, true)
	}
	return balancer
}

// barredMask returns a bit set of the members of the stage that are barred from the shard.
func (b *balancer) barredMask(shard int) string {
	mask := make([]byte, (len(b.members)+7)/8)
	for position, i := range b.members {
		if !b.pl.canReceive(i, shard) {
			mask[position/8] |= 1 << (position % 8)
		}
	}
	return string(mask)
}

// isSet reports whether the given bit of mask is set.
func isSet(mask string, bit int) bool { return mask[bit/8]>>(bit%8)&1 == 1 }

// addShard adds the shard to its class of the member at the given position.
func (b *balancer) addShard(position, shard int, mask string, unowned bool) {
	key := classKey{barred: mask, previous: noOwner, unowned: unowned}
	if b.pl.previous != nil {
		key.previous = b.pl.previous[shard]
	}
	classIndex, known := b.classIndex[position][key]
	if !known {
		classIndex = len(b.classes[position])
		b.classIndex[position][key] = classIndex
		b.classes[position] = append(b.classes[position], class{classKey: key})
	}
	b.classes[position][classIndex].shards = append(b.classes[position][classIndex].shards, int32(shard))
}

// leastLoaded returns the member with the lowest load relative to its weight that can receive the
// shard. A hash decides between equals. The result is negative if all members are barred or
// cordoned.
func (b *balancer) leastLoaded(shard int, mask string) int {
	best, bestScore := -1, uint64(0)
	for candidate := range b.members {
		if b.cordoned[candidate] || isSet(mask, candidate) {
			continue
		}
		score := (b.hash[candidate] ^ hashShard(shard)) * hashShard(shard)
		if best >= 0 {
			if difference := b.receiveCost(candidate)*b.weight[best] - b.receiveCost(best)*b.weight[candidate]; difference > 0 || difference == 0 && score <= bestScore {
				continue
			}
		}
		best, bestScore = candidate, score
	}
	return best
}

// receiveCost returns the increase of load² if receiver gets one more shard.
func (b *balancer) receiveCost(receiver int) int { return 2*b.load[receiver] + 1 }

// sendGain returns the decrease of load² if sender loses one shard.
func (b *balancer) sendGain(sender int) int { return 2*b.load[sender] - 1 }

// moveOne moves one shard from the member with the highest relative load to the one with the lowest
// that can receive one of its shards. It reports whether a shard moved, and how many pairs of
// members it checked.
func (b *balancer) moveOne() (checks int, moved bool) {
	senders, receivers := b.orderBy(b.sendGain), b.orderBy(b.receiveCost)
	slices.Reverse(senders)
	for _, receiver := range receivers {
		if b.cordoned[receiver] {
			continue
		}
		for _, sender := range senders {
			checks++
			if b.sendGain(sender)*b.weight[receiver] <= b.receiveCost(receiver)*b.weight[sender] {
				break // the following members have a lower load, so their moves do not help either
			}
			if b.exhausted[sender][receiver] || b.cordoned[sender] && b.load[sender] <= b.minLoad[sender] {
				continue
			}
			if b.transfer(sender, receiver) {
				return checks, true
			}
			b.exhausted[sender][receiver] = true
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

// transfer moves a shard from sender to receiver, and reports whether the sender had one that the
// receiver may get. The first choice is a shard that has moved already, and the second one a shard
// that the receiver owned before the sender.
func (b *balancer) transfer(sender, receiver int) bool {
	best, bestRank := -1, 3
	for i, c := range b.classes[sender] {
		if len(c.shards) == 0 || isSet(c.barred, receiver) {
			continue
		}
		rank := 2
		switch {
		case c.unowned:
			rank = 0
		case c.previous == b.members[receiver]:
			rank = 1
		}
		if rank < bestRank {
			best, bestRank = i, rank
		}
	}
	if best < 0 {
		return false
	}
	c := &b.classes[sender][best]
	shard := c.shards[0]
	c.shards = c.shards[1:]
	b.load[sender]--
	b.load[receiver]++
	clear(b.exhausted[receiver])
	b.addShard(receiver, int(shard), c.barred, true)
	return true
}
