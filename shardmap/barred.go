package shardmap

import (
	"slices"

	"github.com/cespare/xxhash/v2"
)

// maxPairChecks bounds the work of levelBarred: after that many looks at a pair of members the
// placement stays as even as it is. Clusters of up to 200 nodes never reach it.
const maxPairChecks = 1 << 26

// breaks reports whether a shard was placed on a member that is barred from it.
// owners are the owners before the placement.
func (m *Map) violatesBarred(owners []int16, barred map[NodeID]ShardSet) bool {
	sets := m.barredSets(barred)
	for s, o := range m.owners {
		if o != noOwner && o != owners[s] && sets[o].Has(Shard(s)) {
			return true
		}
	}
	return false
}

// barredSets returns the sets of barred by member index.
func (m *Map) barredSets(barred map[NodeID]ShardSet) []ShardSet {
	sets := make([]ShardSet, len(m.members))
	for i, mb := range m.members {
		sets[i] = barred[mb.ID]
	}
	return sets
}

// mayGet reports whether shard s may be placed on member i, which does not own it.
func (pl *placement) canReceive(i int16, s int) bool {
	return pl.barred == nil || !pl.barred[i].Has(Shard(s))
}

// class is a set of shards of one owner that levelBarred can exchange for each other.
type class struct {
	classKey
	shards []int32
}

type classKey struct {
	barred   string // one bit for each member of the stage
	previous int16  // the member that owned them before their owner, or noOwner
	unowned  bool   // they had no owner or have moved already, so to move them costs nothing
}

// level is the state of levelBarred: the members of one stage, by their place in it.
type balancer struct {
	pl        *placement
	members   []int16
	load      []int // shards of all stages
	weight    []int
	minLoad   []int // a cordoned member gives up what it has beyond this
	cordoned  []bool
	hash      []uint64           // of the ids
	classes   [][]class          // by owner
	index     []map[classKey]int // by owner: the place of a class
	exhausted [][]bool           // by owner and receiver: the owner has no shard for the receiver
}

// levelBarred places the shards of a stage on the given members, ascending, where members
// are barred from shards. A barred member gets a shard only if all other members are barred,
// too, and nobody owns the shard.
//
// A shard without an owner goes to the member with the lowest load for its weight. Then
// shards move one at a time, from the highest load to the lowest, as long as the owner has
// a shard for the receiver and the move makes the loads more even: the sum of load²/weight
// falls with each move. So the result is as even as single moves can make it, no move could
// be left out of the last steps, and the same question again moves nothing.
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

// newLevel sorts the shards of the stage by owner and class, and gives those without an
// owner to members.
func (pl *placement) newBalancer(stage int16, members []int16) *balancer {
	k := len(members)
	b := &balancer{pl: pl, members: members, load: make([]int, k), weight: make([]int, k), minLoad: make([]int, k), cordoned: make([]bool, k), hash: make([]uint64, k), classes: make([][]class, k), index: make([]map[classKey]int, k), exhausted: make([][]bool, k)}
	place := make(map[int16]int, k)
	owned, n := make([]int, len(pl.m.members)), 0
	for u, i := range members {
		place[i], b.index[u] = u, map[classKey]int{}
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
		if u < 0 { // all members that may get shards are barred
			mask = string(make([]byte, len(mask)))
			u = b.leastLoaded(s, mask)
		}
		b.load[u]++
		b.addShard(u, s, mask, true)
	}
	return b
}

// bars returns which members of the stage are barred from shard s, one bit for each.
func (b *balancer) barredMask(s int) string {
	mask := make([]byte, (len(b.members)+7)/8)
	for u, i := range b.members {
		if !b.pl.canReceive(i, s) {
			mask[u/8] |= 1 << (u % 8)
		}
	}
	return string(mask)
}

func isSet(mask string, u int) bool { return mask[u/8]>>(u%8)&1 == 1 }

// add puts shard s into the class of member u that it belongs to.
func (b *balancer) addShard(u, s int, mask string, unowned bool) {
	key := classKey{barred: mask, previous: noOwner, unowned: unowned}
	if b.pl.previous != nil {
		key.previous = b.pl.previous[s]
	}
	at, known := b.index[u][key]
	if !known {
		at = len(b.classes[u])
		b.index[u][key] = at
		b.classes[u] = append(b.classes[u], class{classKey: key})
	}
	b.classes[u][at].shards = append(b.classes[u][at].shards, int32(s))
}

// lowest returns the member with the lowest load for its weight that may get shard s; a
// hash decides between equals. It is negative if all members are barred.
func (b *balancer) leastLoaded(s int, mask string) int {
	best, bestScore := -1, uint64(0)
	for v := range b.members {
		if b.cordoned[v] || isSet(mask, v) {
			continue
		}
		score := (b.hash[v] ^ mix64(s)) * mix64(s)
		if best >= 0 {
			if d := b.receiveCost(v)*b.weight[best] - b.receiveCost(best)*b.weight[v]; d > 0 || d == 0 && score <= bestScore {
				continue
			}
		}
		best, bestScore = v, score
	}
	return best
}

// gains is by how much load² grows with one shard more, gives by how much it falls with one
// less.
func (b *balancer) receiveCost(v int) int { return 2*b.load[v] + 1 }
func (b *balancer) sendGain(u int) int    { return 2*b.load[u] - 1 }

// move moves one shard from the highest load to the lowest that has a shard for it, and
// reports whether there was one, and how many pairs it looked at.
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
				break // nor does any owner after this one
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

// order returns the members by cost for their weight, ascending.
func (b *balancer) orderBy(cost func(int) int) []int {
	all := make([]int, len(b.members))
	for u := range all {
		all[u] = u
	}
	slices.SortStableFunc(all, func(u, v int) int { return cost(u)*b.weight[v] - cost(v)*b.weight[u] })
	return all
}

// pass moves a shard from u to v, and reports whether u had one that v is not barred from.
// The first choice is a shard that moves anyway, then one that v owned before u did.
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
