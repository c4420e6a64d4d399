package shardmap

import (
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// The stages of a placement: which shards are spread together. Above stageRest each
// zone has its own.
const (
	stageFixed = -1 // the shard has its place
	stageRest  = 0  // it may go to any member
)

// placement is how Assign finds the owners: each shard belongs to a stage, the
// stages are spread one after the other, and what is spread has its place.
type placement struct {
	m *Map
	// shut members get nothing in a stage that they do not own already; those who are
	// away get nothing, and are in no stage.
	cordoned []bool
	excluded []bool
	stage    []int16 // by shard
	fixed    []int   // by member: the shards that are placed
	// before is who owned a shard before its owner, by shard; nil: nobody. since is the
	// epoch from which it has been its owner's.
	previous []int16
	since    []Epoch
	// barred are the shards that a member must not get, by member; nil: Barred is ignored.
	barred []ShardSet
}

// place brings every member to its target. Before it, owners are those of the last
// map as far as they are members. barred are the shards that a member must not get; nil
// for none.
func (m *Map) place(p Policy, since []Epoch, barred []ShardSet) {
	pl := placement{
		previous: m.ownerIndexes(p.Before), since: since, barred: barred,
		m: m, cordoned: make([]bool, len(m.members)), excluded: make([]bool, len(m.members)), stage: make([]int16, len(m.owners)), fixed: make([]int, len(m.members)),
	}
	allFixed := p.Paused
	var active []int16 // who may get something
	cordoned := 0
	for i, mb := range m.members {
		if pl.excluded[i] = p.Absent[mb.ID] || p.Emptying[mb.ID]; pl.excluded[i] {
			continue
		}
		active = append(active, int16(i))
		if pl.cordoned[i] = p.Cordoned[mb.ID]; pl.cordoned[i] {
			cordoned++
		}
	}
	if len(active) > 0 {
		pl.releaseIdle(p)
	}
	pl.fixOwners(func(o int16) bool { return pl.excluded[o] })
	if len(active) == 0 {
		return
	}
	if cordoned == len(active) {
		allFixed = true // nobody is left for what they would give up
		clear(pl.cordoned)
	}
	if allFixed {
		pl.fixOwners(func(o int16) bool { return !pl.excluded[o] })
	}
	zones := pl.applyPins(p)
	for i, zone := range zones {
		pl.spread(stageRest+1+int16(i), zone)
	}
	pl.spread(stageRest, active)
}

// empty takes what is idle from those who are to have nothing in the end.
func (pl *placement) releaseIdle(p Policy) {
	for s, idle := range p.Idle {
		if !idle || int(s) >= len(pl.m.owners) || pl.m.owners[s] == noOwner {
			continue
		}
		if id := pl.m.members[pl.m.owners[s]].ID; p.Emptying[id] && !p.Absent[id] {
			pl.m.owners[s] = noOwner
		}
	}
}

// hold leaves every shard with its owner, if that is still there and one of these.
func (pl *placement) fixOwners(match func(owner int16) bool) {
	for s, o := range pl.m.owners {
		if o != noOwner && match(o) {
			pl.fixOwner(s, o)
		}
	}
}

// put gives shard s its place.
func (pl *placement) fixOwner(s int, owner int16) {
	pl.m.owners[s], pl.stage[s] = owner, stageFixed
	pl.fixed[owner]++
}

// pin places what is pinned to a node, and puts what is pinned to a zone into the
// zone's stage. It returns the members of each.
//
// Where somebody stands is learnt from itself, so just after an election it may not
// be known yet. What is pinned to a zone must not move for that.
func (pl *placement) applyPins(p Policy) [][]int16 {
	if len(p.Pins) == 0 {
		return nil
	}
	var members [][]int16
	stages := map[string]int16{} // by zone; stageRest: nobody there is open
	for i, mb := range pl.m.members {
		zone := p.Zones[mb.ID]
		if zone == "" || pl.cordoned[i] || pl.excluded[i] {
			continue
		}
		if _, ok := stages[zone]; !ok {
			members = append(members, nil)
			stages[zone] = stageRest + int16(len(members))
		}
	}
	unknown := false
	for i, mb := range pl.m.members {
		if pl.excluded[i] {
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
		if s >= len(pl.stage) || pl.stage[s] == stageFixed {
			continue
		}
		if pin := p.Pins[shard]; pin.Node != "" {
			pl.pinToNode(s, pin.Node)
		} else {
			stage := stages[pin.Zone]
			if stage != stageRest && pl.barred != nil && !pl.zoneCanReceive(members[stage-1], s) {
				continue // the shard is placed like one without a pin
			}
			pl.pinToZone(s, pin.Zone, p.Zones, stage, unknown)
		}
	}
	return members
}

func (pl *placement) pinToNode(s int, node NodeID) {
	if i := pl.m.index(node); i != noOwner && !pl.excluded[i] && (!pl.cordoned[i] && pl.canReceive(int16(i), s) || int(pl.m.owners[s]) == i) {
		pl.fixOwner(s, int16(i))
	}
}

// zoneCanReceive reports whether a member of a zone owns shard s or may get it.
func (pl *placement) zoneCanReceive(zone []int16, s int) bool {
	return slices.ContainsFunc(zone, func(i int16) bool {
		return pl.m.owners[s] == i || !pl.cordoned[i] && pl.canReceive(i, s)
	})
}

func (pl *placement) pinToZone(s int, zone string, zones map[NodeID]string, stage int16, unknown bool) {
	o := pl.m.owners[s]
	there := o != noOwner && zones[pl.m.members[o].ID] == zone
	switch {
	case o != noOwner && unknown, there && stage == stageRest:
		pl.fixOwner(s, o)
	case stage != stageRest:
		pl.stage[s] = stage
		if !there {
			pl.m.owners[s] = noOwner
		}
	}
}

// spread places the shards of a stage on the given members, ascending: those above
// their target give up shards, which go with the orphans to those below.
func (pl *placement) spread(stage int16, members []int16) {
	if pl.barred != nil {
		pl.spreadBarred(stage, members)
		return
	}
	m := pl.m
	owned, n := make([]int, len(m.members)), 0
	for s, o := range m.owners {
		if pl.stage[s] != stage {
			continue
		}
		n++
		if o != noOwner {
			owned[o]++
		}
	}
	target := pl.targets(n, members, owned)
	r := receivers{missing: make([]int, len(m.members)), best: make([]int16, len(m.owners))}
	for _, i := range members {
		if r.missing[i] = target[i] - owned[i]; r.missing[i] > 0 {
			r.index = append(r.index, i)
			r.hash = append(r.hash, xxhash.Sum64String(string(m.members[i].ID)))
		}
	}
	if len(r.index) > 0 { // else nobody is above its target either
		for s := range r.best {
			r.best[s] = noOwner
		}
		pl.releaseSurplus(stage, owned, target, &r)
	}
	pl.returnOrphans(stage, &r)
	for s, st := range pl.stage {
		if st == stage {
			if m.owners[s] == noOwner {
				m.owners[s] = r.assign(s)
			}
			pl.fixOwner(s, m.owners[s])
		}
	}
}

// indices returns the members of these names, none for who is no member.
func (m *Map) ownerIndexes(names []NodeID) []int16 {
	if len(names) != len(m.owners) {
		return nil
	}
	known := make(map[NodeID]int16, len(m.members))
	for i, mb := range m.members {
		known[mb.ID] = int16(i)
	}
	out := make([]int16, len(names))
	for s, name := range names {
		out[s] = noOwner
		if i, ok := known[name]; ok {
			out[s] = i
		}
	}
	return out
}

// returns gives the member from which a shard came to its owner, if it is to get
// shards, else none.
func (pl *placement) returnTarget(s int, r *receivers) int16 {
	if pl.previous == nil || pl.previous[s] == noOwner || r.missing[pl.previous[s]] <= 0 {
		return noOwner
	}
	return pl.previous[s]
}

// returnTo gives back the orphans of a stage to those from whom they came last.
func (pl *placement) returnOrphans(stage int16, r *receivers) {
	if pl.previous == nil {
		return
	}
	for s, st := range pl.stage {
		if st != stage || pl.m.owners[s] != noOwner {
			continue
		}
		if o := pl.returnTarget(s, r); o != noOwner {
			pl.m.owners[s] = o
			r.received(o)
		}
	}
}

// giveUp orphans what members own above their target. First they give up what came
// from a receiver, the latest first: a node that was away and is back gets what it had
// before, and each shard moves twice for that. Then the shards that a receiver scores
// highest, which are often the same from one time to the next.
func (pl *placement) releaseSurplus(stage int16, owned, target []int, r *receivers) {
	// One bucket of owned shards for each member above its target.
	bucket := make([][]uint64, len(owned))
	for i, n := range owned {
		if n > target[i] {
			bucket[i] = make([]uint64, 0, n)
		}
	}
	for s, o := range pl.m.owners {
		if o != noOwner && pl.stage[s] == stage && bucket[o] != nil {
			// The shard makes the low 16 bits of the score: no two are equal.
			key := r.score(s) >> 1
			if pl.returnTarget(s, r) != noOwner {
				key = 1<<63 | uint64(pl.since[s])<<17>>1
			}
			bucket[o] = append(bucket[o], key&^(MaxShards-1)|uint64(s))
		}
	}
	for i, keys := range bucket {
		if keys == nil {
			continue
		}
		selectSmallest(keys, target[i])
		for _, k := range keys[target[i]:] {
			pl.m.owners[k%MaxShards] = noOwner
		}
	}
}
