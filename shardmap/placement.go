package shardmap

import (
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Stages of a placement: the shards of one stage are spread together. Each zone with pinned shards
// has a stage above stageRest.
const (
	stageFixed = -1 // the owner of the shard is final
	stageRest  = 0  // any member can own the shard
)

// placement is the state of Assign. Each shard belongs to a stage. Assign spreads one stage after
// the other, and fixes the owners of the shards of a finished stage.
type placement struct {
	m *Map

	// The following slices are indexed by member.
	cordoned []bool     // receives no shards in a stage, but keeps its own up to its quota
	excluded []bool     // absent or emptying: belongs to no stage and receives no shards
	fixed    []int      // number of shards whose owner is final
	barred   []ShardSet // shards that the member must not receive; nil means no restriction

	// The following slices are indexed by shard.
	stage    []int16 // stageFixed, stageRest or the stage of a zone
	previous []int16 // owner before the current owner; nil means unknown
	since    []Epoch // ownership epoch of the current owner
}

// place sets the owners of all shards so that every member reaches its target. On entry m.owners
// contains the owners of the previous map that are still members. barred contains, by member, the
// shards that the member must not receive; nil means that Policy.Barred is ignored.
func (m *Map) place(p Policy, since []Epoch, barred []ShardSet) {
	pl := placement{
		previous: m.ownerIndexes(p.PreviousOwners), since: since, barred: barred,
		m: m, cordoned: make([]bool, len(m.members)), excluded: make([]bool, len(m.members)), stage: make([]int16, len(m.owners)), fixed: make([]int, len(m.members)),
	}
	allFixed := p.Paused
	var active []int16 // members that are not excluded
	cordoned := 0
	for i, member := range m.members {
		if pl.excluded[i] = p.Restarting[member.ID] || p.GraduallyDrained[member.ID]; pl.excluded[i] {
			continue
		}
		active = append(active, int16(i))
		if pl.cordoned[i] = p.Cordoned[member.ID]; pl.cordoned[i] {
			cordoned++
		}
	}
	if len(active) > 0 {
		pl.releaseIdle(p)
	}
	pl.fixOwners(func(owner int16) bool { return pl.excluded[owner] })
	if len(active) == 0 {
		return
	}
	if cordoned == len(active) {
		allFixed = true // no member can receive what the cordoned ones would release
		clear(pl.cordoned)
	}
	if allFixed {
		pl.fixOwners(func(owner int16) bool { return !pl.excluded[owner] })
	}
	zones := pl.applyPins(p)
	for i, zone := range zones {
		pl.spread(stageRest+1+int16(i), zone)
	}
	pl.spread(stageRest, active)
}

// releaseIdle orphans the idle shards of emptying members.
func (pl *placement) releaseIdle(p Policy) {
	for shard, idle := range p.IdleShards {
		if !idle || int(shard) >= len(pl.m.owners) || pl.m.owners[shard] == noOwner {
			continue
		}
		if id := pl.m.members[pl.m.owners[shard]].ID; p.GraduallyDrained[id] && !p.Restarting[id] {
			pl.m.owners[shard] = noOwner
		}
	}
}

// fixOwners fixes each shard to its owner, if match returns true for the owner.
func (pl *placement) fixOwners(match func(owner int16) bool) {
	for shard, o := range pl.m.owners {
		if o != noOwner && match(o) {
			pl.fixOwner(shard, o)
		}
	}
}

// fixOwner makes owner the final owner of the shard.
func (pl *placement) fixOwner(shard int, owner int16) {
	pl.m.owners[shard], pl.stage[shard] = owner, stageFixed
	pl.fixed[owner]++
}

// applyPins fixes the owners of shards that are pinned to a node, and assigns shards that are
// pinned to a zone to the stage of that zone. It returns the members of each zone stage, in the
// order of the stages.
//
// Nodes announce their zones themselves, so a zone may be unknown right after an election. Shards
// that are pinned to a zone must not move for that reason.
func (pl *placement) applyPins(p Policy) [][]int16 {
	if len(p.Pins) == 0 {
		return nil
	}
	var members [][]int16
	stages := map[string]int16{} // by zone; stageRest (0) if no member of the zone can receive shards
	for i, member := range pl.m.members {
		zone := p.Zones[member.ID]
		if zone == "" || pl.cordoned[i] || pl.excluded[i] {
			continue
		}
		if _, ok := stages[zone]; !ok {
			members = append(members, nil)
			stages[zone] = stageRest + int16(len(members))
		}
	}
	unknown := false
	for i, member := range pl.m.members {
		if pl.excluded[i] {
			continue
		}
		zone, ok := p.Zones[member.ID]
		unknown = unknown || !ok
		if shardStage := stages[zone]; shardStage != stageRest {
			members[shardStage-1] = append(members[shardStage-1], int16(i))
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
				continue // place the shard as if it had no pin
			}
			pl.pinToZone(s, pin.Zone, p.Zones, stage, unknown)
		}
	}
	return members
}

// pinToNode fixes the shard to node, if node is a member that owns it or can receive it.
func (pl *placement) pinToNode(shard int, node NodeID) {
	if i := pl.m.memberIndex(node); i != noOwner && !pl.excluded[i] && (!pl.cordoned[i] && pl.canReceive(int16(i), shard) || int(pl.m.owners[shard]) == i) {
		pl.fixOwner(shard, int16(i))
	}
}

// zoneCanReceive reports whether a member of a zone owns the shard or can receive it.
func (pl *placement) zoneCanReceive(zone []int16, shard int) bool {
	return slices.ContainsFunc(zone, func(i int16) bool {
		return pl.m.owners[shard] == i || !pl.cordoned[i] && pl.canReceive(i, shard)
	})
}

// pinToZone assigns the shard to the stage of its zone. stage is stageRest if no member of the zone
// can receive shards. unknown is true if the zone of a member is unknown; in that case the shard
// stays with its owner.
func (pl *placement) pinToZone(shard int, zone string, zones map[NodeID]string, stage int16, unknown bool) {
	owner := pl.m.owners[shard]
	inZone := owner != noOwner && zones[pl.m.members[owner].ID] == zone
	switch {
	case owner != noOwner && unknown, inZone && stage == stageRest:
		pl.fixOwner(shard, owner)
	case stage != stageRest:
		pl.stage[shard] = stage
		if !inZone {
			pl.m.owners[shard] = noOwner
		}
	}
}

// spread places the shards of a stage on the given members, which are sorted by index. Members
// above their target release shards. These and the orphaned shards go to the members below their
// target.
func (pl *placement) spread(stage int16, members []int16) {
	if pl.barred != nil {
		pl.spreadBarred(stage, members)
		return
	}
	m := pl.m
	owned, shardCount := make([]int, len(m.members)), 0
	for shard, owner := range m.owners {
		if pl.stage[shard] != stage {
			continue
		}
		shardCount++
		if owner != noOwner {
			owned[owner]++
		}
	}
	target := pl.targets(shardCount, members, owned)
	r := receivers{shortfall: make([]int, len(m.members)), bestReceiver: make([]int16, len(m.owners))}
	for _, i := range members {
		if r.shortfall[i] = target[i] - owned[i]; r.shortfall[i] > 0 {
			r.members = append(r.members, i)
			r.hashes = append(r.hashes, xxhash.Sum64String(string(m.members[i].ID)))
		}
	}
	if len(r.members) > 0 { // without receivers no member is above its target
		for shard := range r.bestReceiver {
			r.bestReceiver[shard] = noOwner
		}
		pl.releaseSurplus(stage, owned, target, &r)
	}
	pl.returnOrphans(stage, &r)
	for shard, shardStage := range pl.stage {
		if shardStage == stage {
			if m.owners[shard] == noOwner {
				m.owners[shard] = r.assign(shard)
			}
			pl.fixOwner(shard, m.owners[shard])
		}
	}
}

// ownerIndexes returns the indexes of the members with the given names, and noOwner for a name that
// is not a member. It returns nil unless there is one name per shard.
func (m *Map) ownerIndexes(names []NodeID) []int16 {
	if len(names) != len(m.owners) {
		return nil
	}
	known := make(map[NodeID]int16, len(m.members))
	for i, member := range m.members {
		known[member.ID] = int16(i)
	}
	out := make([]int16, len(names))
	for shard, name := range names {
		out[shard] = noOwner
		if i, ok := known[name]; ok {
			out[shard] = i
		}
	}
	return out
}

// returnTarget returns the previous owner of the shard, if that is a receiver that still needs
// shards, and noOwner otherwise.
func (pl *placement) returnTarget(shard int, r *receivers) int16 {
	if pl.previous == nil || pl.previous[shard] == noOwner || r.shortfall[pl.previous[shard]] <= 0 {
		return noOwner
	}
	return pl.previous[shard]
}

// returnOrphans returns the orphaned shards of a stage to their previous owners.
func (pl *placement) returnOrphans(stage int16, r *receivers) {
	if pl.previous == nil {
		return
	}
	for shard, shardStage := range pl.stage {
		if shardStage != stage || pl.m.owners[shard] != noOwner {
			continue
		}
		if owner := pl.returnTarget(shard, r); owner != noOwner {
			pl.m.owners[shard] = owner
			r.received(owner)
		}
	}
}

// releaseSurplus orphans the shards that members own above their target. The first choice are
// shards that came from a receiver, starting with the most recent ones: a node that restarts gets
// back the shards that it had, and each of them moves only twice. The second choice are the shards
// with the highest score at a receiver, which are often the same in each call.
func (pl *placement) releaseSurplus(stage int16, owned, target []int, r *receivers) {
	// One bucket of shards for each member above its target.
	bucket := make([][]uint64, len(owned))
	for i, n := range owned {
		if n > target[i] {
			bucket[i] = make([]uint64, 0, n)
		}
	}
	for shard, owner := range pl.m.owners {
		if owner != noOwner && pl.stage[shard] == stage && bucket[owner] != nil {
			// The low 16 bits of the key are the shard number, so all keys differ.
			key := r.score(shard) >> 1
			if pl.returnTarget(shard, r) != noOwner {
				key = 1<<63 | uint64(pl.since[shard])<<17>>1
			}
			bucket[owner] = append(bucket[owner], key&^(MaxShards-1)|uint64(shard))
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
