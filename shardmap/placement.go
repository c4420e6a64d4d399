package shardmap

import (
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// The stages of a placement: which shards are spread together. Above stageRest each
// zone has its own.
const (
	placed    = -1 // the shard has its place
	stageRest = 0  // it may go to any member
)

// placement is how Assign finds the owners: each shard belongs to a stage, the
// stages are spread one after the other, and what is spread has its place.
type placement struct {
	m *Map
	// shut members get nothing in a stage that they do not own already; those who are
	// away get nothing, and are in no stage.
	shut  []bool
	away  []bool
	stage []int16 // by shard
	base  []int   // by member: the shards that are placed
	// before is who owned a shard before its owner, by shard; nil: nobody. since is the
	// epoch from which it has been its owner's.
	before []int16
	since  []Epoch
	// barred are the shards that a member must not get, by member; nil: Barred is ignored.
	barred []ShardSet
}

// place brings every member to its target. Before it, owners are those of the last
// map as far as they are members. barred are the shards that a member must not get; nil
// for none.
func (m *Map) place(p Policy, since []Epoch, barred []ShardSet) {
	pl := placement{
		before: m.indices(p.Before), since: since, barred: barred,
		m: m, shut: make([]bool, len(m.members)), away: make([]bool, len(m.members)), stage: make([]int16, len(m.owners)), base: make([]int, len(m.members)),
	}
	held := p.Paused
	var all []int16 // who may get something
	closed := 0
	for i, mb := range m.members {
		if pl.away[i] = p.Absent[mb.ID] || p.Emptying[mb.ID]; pl.away[i] {
			continue
		}
		all = append(all, int16(i))
		if pl.shut[i] = p.Cordoned[mb.ID]; pl.shut[i] {
			closed++
		}
	}
	if len(all) > 0 {
		pl.empty(p)
	}
	pl.hold(func(o int16) bool { return pl.away[o] })
	if len(all) == 0 {
		return
	}
	if closed == len(all) {
		held = true // nobody is left for what they would give up
		clear(pl.shut)
	}
	if held {
		pl.hold(func(o int16) bool { return !pl.away[o] })
	}
	zones := pl.pin(p)
	for i, zone := range zones {
		pl.spread(stageRest+1+int16(i), zone)
	}
	pl.spread(stageRest, all)
}

// empty takes what is idle from those who are to have nothing in the end.
func (pl *placement) empty(p Policy) {
	for s, idle := range p.Idle {
		if !idle || int(s) >= len(pl.m.owners) || pl.m.owners[s] == none {
			continue
		}
		if id := pl.m.members[pl.m.owners[s]].ID; p.Emptying[id] && !p.Absent[id] {
			pl.m.owners[s] = none
		}
	}
}

// hold leaves every shard with its owner, if that is still there and one of these.
func (pl *placement) hold(of func(owner int16) bool) {
	for s, o := range pl.m.owners {
		if o != none && of(o) {
			pl.put(s, o)
		}
	}
}

// put gives shard s its place.
func (pl *placement) put(s int, owner int16) {
	pl.m.owners[s], pl.stage[s] = owner, placed
	pl.base[owner]++
}

// pin places what is pinned to a node, and puts what is pinned to a zone into the
// zone's stage. It returns the members of each.
//
// Where somebody stands is learnt from itself, so just after an election it may not
// be known yet. What is pinned to a zone must not move for that.
func (pl *placement) pin(p Policy) [][]int16 {
	if len(p.Pins) == 0 {
		return nil
	}
	var members [][]int16
	stages := map[string]int16{} // by zone; stageRest: nobody there is open
	for i, mb := range pl.m.members {
		zone := p.Zones[mb.ID]
		if zone == "" || pl.shut[i] || pl.away[i] {
			continue
		}
		if _, ok := stages[zone]; !ok {
			members = append(members, nil)
			stages[zone] = stageRest + int16(len(members))
		}
	}
	unknown := false
	for i, mb := range pl.m.members {
		if pl.away[i] {
			continue
		}
		zone, ok := p.Zones[mb.ID]
		unknown = unknown || !ok
		if st := stages[zone]; st != stageRest {
			members[st-1] = append(members[st-1], int16(i))
		}
	}
	for _, shard := range slices.Sorted(maps.Keys(p.Pins)) {
		s := int(shard)
		if s >= len(pl.stage) || pl.stage[s] == placed {
			continue
		}
		if pin := p.Pins[shard]; pin.Node != "" {
			pl.pinToNode(s, pin.Node)
		} else {
			stage := stages[pin.Zone]
			if stage != stageRest && pl.barred != nil && !pl.zoneMayGet(members[stage-1], s) {
				continue // the shard is placed like one without a pin
			}
			pl.pinToZone(s, pin.Zone, p.Zones, stage, unknown)
		}
	}
	return members
}

func (pl *placement) pinToNode(s int, node NodeID) {
	if i := pl.m.index(node); i != none && !pl.away[i] && (!pl.shut[i] && pl.mayGet(int16(i), s) || int(pl.m.owners[s]) == i) {
		pl.put(s, int16(i))
	}
}

// zoneMayGet reports whether a member of a zone owns shard s or may get it.
func (pl *placement) zoneMayGet(zone []int16, s int) bool {
	return slices.ContainsFunc(zone, func(i int16) bool {
		return pl.m.owners[s] == i || !pl.shut[i] && pl.mayGet(i, s)
	})
}

func (pl *placement) pinToZone(s int, zone string, zones map[NodeID]string, stage int16, unknown bool) {
	o := pl.m.owners[s]
	there := o != none && zones[pl.m.members[o].ID] == zone
	switch {
	case o != none && unknown, there && stage == stageRest:
		pl.put(s, o)
	case stage != stageRest:
		pl.stage[s] = stage
		if !there {
			pl.m.owners[s] = none
		}
	}
}

// spread places the shards of a stage on the given members, ascending: those above
// their target give up shards, which go with the orphans to those below.
func (pl *placement) spread(stage int16, members []int16) {
	if pl.barred != nil {
		pl.levelBarred(stage, members)
		return
	}
	m := pl.m
	owned, n := make([]int, len(m.members)), 0
	for s, o := range m.owners {
		if pl.stage[s] != stage {
			continue
		}
		n++
		if o != none {
			owned[o]++
		}
	}
	target := pl.targets(n, members, owned)
	r := receivers{wants: make([]int, len(m.members)), first: make([]int16, len(m.owners))}
	for _, i := range members {
		if r.wants[i] = target[i] - owned[i]; r.wants[i] > 0 {
			r.index = append(r.index, i)
			r.hash = append(r.hash, xxhash.Sum64String(string(m.members[i].ID)))
		}
	}
	if len(r.index) > 0 { // else nobody is above its target either
		for s := range r.first {
			r.first[s] = none
		}
		pl.giveUp(stage, owned, target, &r)
	}
	pl.returnTo(stage, &r)
	for s, st := range pl.stage {
		if st == stage {
			if m.owners[s] == none {
				m.owners[s] = r.take(s)
			}
			pl.put(s, m.owners[s])
		}
	}
}

// indices returns the members of these names, none for who is no member.
func (m *Map) indices(names []NodeID) []int16 {
	if len(names) != len(m.owners) {
		return nil
	}
	known := make(map[NodeID]int16, len(m.members))
	for i, mb := range m.members {
		known[mb.ID] = int16(i)
	}
	out := make([]int16, len(names))
	for s, name := range names {
		out[s] = none
		if i, ok := known[name]; ok {
			out[s] = i
		}
	}
	return out
}

// returns gives the member from which a shard came to its owner, if it is to get
// shards, else none.
func (pl *placement) returns(s int, r *receivers) int16 {
	if pl.before == nil || pl.before[s] == none || r.wants[pl.before[s]] <= 0 {
		return none
	}
	return pl.before[s]
}

// returnTo gives back the orphans of a stage to those from whom they came last.
func (pl *placement) returnTo(stage int16, r *receivers) {
	if pl.before == nil {
		return
	}
	for s, st := range pl.stage {
		if st != stage || pl.m.owners[s] != none {
			continue
		}
		if o := pl.returns(s, r); o != none {
			pl.m.owners[s] = o
			r.serve(o)
		}
	}
}

// giveUp orphans what members own above their target. First they give up what came
// from a receiver, the latest first: a node that was away and is back gets what it had
// before, and each shard moves twice for that. Then the shards that a receiver scores
// highest, which are often the same from one time to the next.
func (pl *placement) giveUp(stage int16, owned, target []int, r *receivers) {
	// One bucket of owned shards for each member above its target.
	bucket := make([][]uint64, len(owned))
	for i, n := range owned {
		if n > target[i] {
			bucket[i] = make([]uint64, 0, n)
		}
	}
	for s, o := range pl.m.owners {
		if o != none && pl.stage[s] == stage && bucket[o] != nil {
			// The shard makes the low 16 bits of the score: no two are equal.
			key := r.best(s) >> 1
			if pl.returns(s, r) != none {
				key = 1<<63 | uint64(pl.since[s])<<17>>1
			}
			bucket[o] = append(bucket[o], key&^(MaxShards-1)|uint64(s))
		}
	}
	for i, keys := range bucket {
		if keys == nil {
			continue
		}
		split(keys, target[i])
		for _, k := range keys[target[i]:] {
			pl.m.owners[k%MaxShards] = none
		}
	}
}
