package shardmap

import (
	"slices"

	"github.com/cespare/xxhash/v2"
)

// pairChecks bounds the work of levelBarred: after that many looks at a pair of members the
// placement stays as even as it is. Clusters of up to 200 nodes never reach it.
const pairChecks = 1 << 26

// breaks reports whether a shard was placed on a member that is barred from it.
// owners are the owners before the placement.
func (m *Map) breaks(owners []int16, barred map[NodeID]ShardSet) bool {
	sets := m.barredSets(barred)
	for s, o := range m.owners {
		if o != none && o != owners[s] && sets[o].Has(Shard(s)) {
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
func (pl *placement) mayGet(i int16, s int) bool {
	return pl.barred == nil || !pl.barred[i].Has(Shard(s))
}

// class is a set of shards of one owner that levelBarred can exchange for each other.
type class struct {
	classKey
	shards []int32
}

type classKey struct {
	barred string // one bit for each member of the stage
	before int16  // the member that owned them before their owner, or none
	loose  bool   // they had no owner or have moved already, so to move them costs nothing
}

// level is the state of levelBarred: the members of one stage, by their place in it.
type level struct {
	pl      *placement
	members []int16
	load    []int // shards of all stages
	weight  []int
	least   []int // a cordoned member gives up what it has beyond this
	closed  []bool
	hash    []uint64           // of the ids
	classes [][]class          // by owner
	index   []map[classKey]int // by owner: the place of a class
	blocked [][]bool           // by owner and receiver: the owner has no shard for the receiver
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
func (pl *placement) levelBarred(stage int16, members []int16) {
	lv := pl.newLevel(stage, members)
	for checks := 0; checks < pairChecks; {
		n, moved := lv.move()
		if checks += n; !moved {
			break
		}
	}
	for u, classes := range lv.classes {
		for _, c := range classes {
			for _, s := range c.shards {
				pl.put(int(s), members[u])
			}
		}
	}
}

// newLevel sorts the shards of the stage by owner and class, and gives those without an
// owner to members.
func (pl *placement) newLevel(stage int16, members []int16) *level {
	k := len(members)
	lv := &level{pl: pl, members: members, load: make([]int, k), weight: make([]int, k), least: make([]int, k), closed: make([]bool, k), hash: make([]uint64, k), classes: make([][]class, k), index: make([]map[classKey]int, k), blocked: make([][]bool, k)}
	place := make(map[int16]int, k)
	owned, n := make([]int, len(pl.m.members)), 0
	for u, i := range members {
		place[i], lv.index[u] = u, map[classKey]int{}
		lv.hash[u] = xxhash.Sum64String(string(pl.m.members[i].ID))
		lv.weight[u], lv.closed[u], lv.blocked[u] = int(pl.m.members[i].Weight), pl.shut[i], make([]bool, k)
	}
	var loose []int
	for s, st := range pl.stage {
		if st != stage {
			continue
		}
		n++
		o := pl.m.owners[s]
		if o == none {
			loose = append(loose, s)
			continue
		}
		owned[o]++
		lv.add(place[o], s, lv.bars(s), false)
	}
	target := pl.targets(n, members, owned)
	for u, i := range members {
		lv.load[u] = pl.base[i] + owned[i]
		lv.least[u] = pl.base[i] + target[i]
	}
	for _, s := range loose {
		bars := lv.bars(s)
		u := lv.lowest(s, bars)
		if u < 0 { // all members that may get shards are barred
			bars = string(make([]byte, len(bars)))
			u = lv.lowest(s, bars)
		}
		lv.load[u]++
		lv.add(u, s, bars, true)
	}
	return lv
}

// bars returns which members of the stage are barred from shard s, one bit for each.
func (lv *level) bars(s int) string {
	b := make([]byte, (len(lv.members)+7)/8)
	for u, i := range lv.members {
		if !lv.pl.mayGet(i, s) {
			b[u/8] |= 1 << (u % 8)
		}
	}
	return string(b)
}

func has(bars string, u int) bool { return bars[u/8]>>(u%8)&1 == 1 }

// add puts shard s into the class of member u that it belongs to.
func (lv *level) add(u, s int, bars string, loose bool) {
	key := classKey{barred: bars, before: none, loose: loose}
	if lv.pl.before != nil {
		key.before = lv.pl.before[s]
	}
	at, known := lv.index[u][key]
	if !known {
		at = len(lv.classes[u])
		lv.index[u][key] = at
		lv.classes[u] = append(lv.classes[u], class{classKey: key})
	}
	lv.classes[u][at].shards = append(lv.classes[u][at].shards, int32(s))
}

// lowest returns the member with the lowest load for its weight that may get shard s; a
// hash decides between equals. It is negative if all members are barred.
func (lv *level) lowest(s int, bars string) int {
	best, bestScore := -1, uint64(0)
	for v := range lv.members {
		if lv.closed[v] || has(bars, v) {
			continue
		}
		score := (lv.hash[v] ^ salt(s)) * salt(s)
		if best >= 0 {
			if d := lv.gains(v)*lv.weight[best] - lv.gains(best)*lv.weight[v]; d > 0 || d == 0 && score <= bestScore {
				continue
			}
		}
		best, bestScore = v, score
	}
	return best
}

// gains is by how much load² grows with one shard more, gives by how much it falls with one
// less.
func (lv *level) gains(v int) int { return 2*lv.load[v] + 1 }
func (lv *level) gives(u int) int { return 2*lv.load[u] - 1 }

// move moves one shard from the highest load to the lowest that has a shard for it, and
// reports whether there was one, and how many pairs it looked at.
func (lv *level) move() (checks int, moved bool) {
	from, to := lv.order(lv.gives), lv.order(lv.gains)
	slices.Reverse(from)
	for _, v := range to {
		if lv.closed[v] {
			continue
		}
		for _, u := range from {
			checks++
			if lv.gives(u)*lv.weight[v] <= lv.gains(v)*lv.weight[u] {
				break // nor does any owner after this one
			}
			if lv.blocked[u][v] || lv.closed[u] && lv.load[u] <= lv.least[u] {
				continue
			}
			if lv.pass(u, v) {
				return checks, true
			}
			lv.blocked[u][v] = true
		}
	}
	return checks, false
}

// order returns the members by cost for their weight, ascending.
func (lv *level) order(cost func(int) int) []int {
	all := make([]int, len(lv.members))
	for u := range all {
		all[u] = u
	}
	slices.SortStableFunc(all, func(a, b int) int { return cost(a)*lv.weight[b] - cost(b)*lv.weight[a] })
	return all
}

// pass moves a shard from u to v, and reports whether u had one that v is not barred from.
// The first choice is a shard that moves anyway, then one that v owned before u did.
func (lv *level) pass(u, v int) bool {
	best, bestRank := -1, 3
	for i, c := range lv.classes[u] {
		if len(c.shards) == 0 || has(c.barred, v) {
			continue
		}
		rank := 2
		switch {
		case c.loose:
			rank = 0
		case c.before == lv.members[v]:
			rank = 1
		}
		if rank < bestRank {
			best, bestRank = i, rank
		}
	}
	if best < 0 {
		return false
	}
	c := &lv.classes[u][best]
	s := c.shards[0]
	c.shards = c.shards[1:]
	lv.load[u]--
	lv.load[v]++
	clear(lv.blocked[v])
	lv.add(v, int(s), c.barred, true)
	return true
}
