package shardmap

import (
	"slices"

	"github.com/cespare/xxhash/v2"
)

// maxPairChecks bounds the work of spreadBarred. After that many checks of a pair of members it
// stops, and the placement stays as even as it is then. Clusters of up to 200 nodes never reach the
// bound.
const maxPairChecks = 1 << 26

// violatesBarred reports whether a shard was placed on a member that is barred from it. ownersBefore
// contains the owners before the placement.
func (m *Map) violatesBarred(ownersBefore []int16, barred map[NodeID]ShardSet) bool {
	sets := m.barredSets(barred)
	for shard, owner := range m.owners {
		if owner != noOwner && owner != ownersBefore[shard] && sets[owner].Has(Shard(shard)) {
			return true
		}
	}
	return false
}

// barredSets returns the sets in barred by member index. A member with several instances is barred
// from the shards from which all of them are.
func (m *Map) barredSets(barred map[NodeID]ShardSet) []ShardSet {
	sets := make([]ShardSet, len(m.members))
	for i, member := range m.members {
		for position, instance := range member.Instances.All() {
			set := barred[InstanceID(member.ID, instance)]
			if position == 0 {
				sets[i] = set
			} else {
				sets[i] = sets[i].Intersection(set)
			}
		}
	}
	return sets
}

// canReceive reports whether the shard can be placed on member i, which does not own it.
func (pl *placement) canReceive(i int16, shard int) bool {
	return pl.barred == nil || !pl.barred[i].Has(Shard(shard))
}

// class is a set of shards of one owner that are interchangeable: spreadBarred may move any of them.
type class struct {
	classKey
	shards []int32
}

// classKey contains the properties that all shards of a class share.
type classKey struct {
	barred   string // bit set of the members that are barred from the shards, by position
	previous int16  // owner before the current owner, or noOwner
	unowned  bool   // the shards were orphaned or have moved already, so another move is free
}

// balancer is the state of spreadBarred for one stage.
type balancer struct {
	pl      *placement
	members []balancedMember // a position is an index in this slice
}

// balancedMember is a member of the stage, with the shards of the stage that it owns.
type balancedMember struct {
	index    int16 // in Map.members
	load     int   // number of shards, of all stages
	weight   int
	cordoned bool
	minLoad  int    // a cordoned member sends shards only while its load is above this value
	hash     uint64 // of the id, to choose between equally good members

	classes    []class
	classIndex map[classKey]int // index in classes
	// exhausted is indexed by the position of a receiver: this member has no shard that the
	// receiver can own.
	exhausted []bool
}

// spreadBarred places the shards of a stage on the given members, sorted by index, if members are
// barred from shards (Policy.Barred). A barred member receives a shard only if it is orphaned and all other members
// are barred as well.
//
// An orphaned shard goes to the member with the lowest load relative to its weight. Then shards
// move one at a time from the member with the highest relative load to the one with the lowest.
// This continues as long as the sender has a shard that the receiver is not barred from, and the
// move reduces the sum of load²/weight. As a result, no single move can make the result more even,
// the last moves cannot be omitted, and another call with the result moves nothing.
func (pl *placement) spreadBarred(stage int16, members []int16) {
	b := pl.newBalancer(members)
	b.addStage(stage, members)
	for checks := 0; checks < maxPairChecks; {
		n, moved := b.moveOne()
		checks += n
		if !moved {
			break
		}
	}
	for position := range b.members {
		member := &b.members[position]
		for _, class := range member.classes {
			for _, shard := range class.shards {
				pl.fixOwner(int(shard), member.index)
			}
		}
	}
}

// newBalancer returns a balancer without shards.
func (pl *placement) newBalancer(members []int16) *balancer {
	b := &balancer{pl: pl, members: make([]balancedMember, len(members))}
	for position, i := range members {
		b.members[position] = balancedMember{
			index:      i,
			weight:     pl.weights[i],
			cordoned:   pl.cordoned[i],
			hash:       xxhash.Sum64String(string(pl.shardMap.members[i].ID)),
			classIndex: map[classKey]int{},
			exhausted:  make([]bool, len(members)),
		}
	}
	return b
}

// addStage groups the shards of the stage by owner and class, and places the orphaned shards.
func (b *balancer) addStage(stage int16, members []int16) {
	positions := make(map[int16]int, len(members)) // by index
	for position, i := range members {
		positions[i] = position
	}
	var unowned []int
	for shard, shardStage := range b.pl.stage {
		if shardStage != stage {
			continue
		}
		owner := b.pl.shardMap.owners[shard]
		if owner == noOwner {
			unowned = append(unowned, shard)
			continue
		}
		b.addShard(positions[owner], shard, b.barredMask(shard), false)
	}
	ownedInStage, shardCount := b.pl.countStage(stage)
	targets := b.pl.targetCounts(shardCount, members, ownedInStage)
	for position := range b.members {
		member := &b.members[position]
		member.load = b.pl.alreadyPlaced[member.index] + ownedInStage[member.index]
		member.minLoad = b.pl.alreadyPlaced[member.index] + targets[member.index]
	}
	for _, shard := range unowned {
		b.placeOrphan(shard)
	}
}

// placeOrphan gives the shard to the least loaded member. If all members that can receive shards are
// barred from it, one of them gets it nevertheless.
func (b *balancer) placeOrphan(shard int) {
	mask := b.barredMask(shard)
	position := b.leastLoaded(shard, mask)
	if position < 0 {
		mask = string(make([]byte, len(mask))) // no member is barred
		position = b.leastLoaded(shard, mask)
	}
	b.members[position].load++
	b.addShard(position, shard, mask, true)
}

// barredMask returns a bit set of the members of the stage that are barred from the shard.
func (b *balancer) barredMask(shard int) string {
	mask := make([]byte, (len(b.members)+7)/8)
	for position := range b.members {
		if !b.pl.canReceive(b.members[position].index, shard) {
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
	owner := &b.members[position]
	i, known := owner.classIndex[key]
	if !known {
		i = len(owner.classes)
		owner.classIndex[key] = i
		owner.classes = append(owner.classes, class{classKey: key})
	}
	owner.classes[i].shards = append(owner.classes[i].shards, int32(shard))
}

// leastLoaded returns the position of the member with the lowest load relative to its weight that can
// receive the shard. A hash decides between equals. The result is negative if all members are barred
// or cordoned.
func (b *balancer) leastLoaded(shard int, mask string) int {
	best, bestScore := -1, uint64(0)
	for position := range b.members {
		candidate := &b.members[position]
		if candidate.cordoned || isSet(mask, position) {
			continue
		}
		score := (candidate.hash ^ hashShard(shard)) * hashShard(shard)
		if best < 0 {
			best, bestScore = position, score
			continue
		}
		// Compare cost/weight without a division.
		difference := candidate.receiveCost()*b.members[best].weight - b.members[best].receiveCost()*candidate.weight
		if difference < 0 || difference == 0 && score > bestScore {
			best, bestScore = position, score
		}
	}
	return best
}

// receiveCost returns the increase of load² if the member gets one more shard.
func (m *balancedMember) receiveCost() int { return 2*m.load + 1 }

// sendGain returns the decrease of load² if the member loses one shard.
func (m *balancedMember) sendGain() int { return 2*m.load - 1 }

// mayNotSend reports whether the member is cordoned and has no more shards than it keeps.
func (m *balancedMember) mayNotSend() bool { return m.cordoned && m.load <= m.minLoad }

// moveOne moves one shard from the member with the highest relative load to the one with the lowest
// that can receive one of its shards. It reports whether a shard moved, and how many pairs of
// members it checked.
func (b *balancer) moveOne() (checks int, moved bool) {
	senders, receivers := b.orderBy((*balancedMember).sendGain), b.orderBy((*balancedMember).receiveCost)
	slices.Reverse(senders)
	for _, receiverPosition := range receivers {
		receiver := &b.members[receiverPosition]
		if receiver.cordoned {
			continue
		}
		for _, senderPosition := range senders {
			checks++
			sender := &b.members[senderPosition]
			if sender.sendGain()*receiver.weight <= receiver.receiveCost()*sender.weight {
				break // the following members have a lower load, so their moves do not help either
			}
			if sender.exhausted[receiverPosition] || sender.mayNotSend() {
				continue
			}
			if b.transfer(senderPosition, receiverPosition) {
				return checks, true
			}
			sender.exhausted[receiverPosition] = true
		}
	}
	return checks, false
}

// orderBy returns the positions of the members, sorted by cost relative to their weight, ascending.
func (b *balancer) orderBy(cost func(*balancedMember) int) []int {
	positions := make([]int, len(b.members))
	for position := range positions {
		positions[position] = position
	}
	slices.SortStableFunc(positions, func(p, q int) int {
		first, second := &b.members[p], &b.members[q]
		return cost(first)*second.weight - cost(second)*first.weight
	})
	return positions
}

// transfer moves a shard from the sender to the receiver, which are positions. It reports whether the
// sender had a shard that the receiver can own.
func (b *balancer) transfer(sender, receiver int) bool {
	senderMember, receiverMember := &b.members[sender], &b.members[receiver]
	best := senderMember.classFor(receiver, receiverMember.index)
	if best == nil {
		return false
	}
	shard := best.shards[0]
	best.shards = best.shards[1:]
	senderMember.load--
	receiverMember.load++
	clear(receiverMember.exhausted)
	b.addShard(receiver, int(shard), best.barred, true)
	return true
}

// classFor returns the class from which a shard should move to the receiver, which has the given
// position and index, or nil if there is none. The first choice is a shard that has moved already,
// and the second one a shard that the receiver owned before the sender.
func (m *balancedMember) classFor(position int, index int16) *class {
	const movedAlready, returns, other, none = 0, 1, 2, 3
	var best *class
	bestRank := none
	for i := range m.classes {
		candidate := &m.classes[i]
		if len(candidate.shards) == 0 || isSet(candidate.barred, position) {
			continue
		}
		rank := other
		switch {
		case candidate.unowned:
			rank = movedAlready
		case candidate.previous == index:
			rank = returns
		}
		if rank < bestRank {
			best, bestRank = candidate, rank
		}
	}
	return best
}
