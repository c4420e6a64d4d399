package shardmap

import (
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Stages of a placement: the shards of one stage are spread together.
const (
	stageFixed     = -1 // the owner of the shard is final
	stageRest      = 0  // any member can own the shard
	firstZoneStage = 1  // the shards that are pinned to the first zone; each further zone has the next stage
)

// placement is the state of Assign. Each shard belongs to a stage. Assign spreads one stage after
// the other, and fixes the owners of the shards of a finished stage.
type placement struct {
	shardMap *Map

	// The following slices are indexed by member.
	cordoned       []bool     // receives no shards in a stage, but keeps its own up to its quota
	excluded       []bool     // restarting, gradually drained or emptied: belongs to no stage and receives no shards
	alreadyPlaced  []int      // number of shards whose owner is final
	ownedElsewhere []int      // number of shards of other services
	weights        []int      // by which the shards are shared
	barred         []ShardSet // shards that the member must not receive; nil means no restriction

	// The following slices are indexed by shard.
	stage    []int16 // stageFixed, stageRest or the stage of a zone
	previous []int16 // owner before the current owner; nil means unknown
	since    []Epoch // ownership epoch of the current owner
}

// place sets the owners of all shards so that every member reaches its target. On entry m.owners
// contains the owners of the previous map that are still members. barred contains, by member, the
// shards that the member must not receive; nil means that Policy.Barred is ignored. standbys are those of the
// previous map; nil means none.
func (m *Map) place(policy Policy, since []Epoch, barred []ShardSet, standbys *Standbys) {
	pl := m.newPlacement(policy, since, barred)
	active := pl.activeMembers()
	if len(active) > 0 {
		pl.releaseIdle(policy)
		pl.releaseEmptied(policy, active)
		pl.fixAssigned(policy)
		pl.placeOnSubstitutes(policy, active)
	}
	pl.fixOwners(func(owner int16) bool { return pl.excluded[owner] })
	if len(active) == 0 {
		return
	}
	allCordoned := !slices.ContainsFunc(active, func(i int16) bool { return !pl.cordoned[i] })
	if allCordoned {
		clear(pl.cordoned) // no member can receive what the cordoned ones would release
	}
	if zonesKnown := pl.weighZones(policy, active); policy.Paused || allCordoned || !zonesKnown {
		pl.fixOwners(func(owner int16) bool { return !pl.excluded[owner] })
	}
	zones := pl.applyPins(policy)
	pl.placeOnStandbys(policy, standbys)
	for i, zone := range zones {
		pl.spread(firstZoneStage+int16(i), zone)
	}
	pl.spread(stageRest, active)
}

// newPlacement returns a placement in which every shard belongs to stageRest.
func (m *Map) newPlacement(policy Policy, since []Epoch, barred []ShardSet) *placement {
	pl := &placement{
		shardMap:       m,
		cordoned:       make([]bool, len(m.members)),
		excluded:       make([]bool, len(m.members)),
		alreadyPlaced:  make([]int, len(m.members)),
		ownedElsewhere: make([]int, len(m.members)),
		weights:        make([]int, len(m.members)),
		barred:         barred,
		stage:          make([]int16, len(m.owners)),
		previous:       m.ownerIndexes(policy.PreviousOwners),
		since:          since,
	}
	for i, member := range m.members {
		pl.excluded[i] = policy.Restarting[member.ID] || policy.GraduallyDrained[member.ID] || policy.Emptied[member.ID]
		pl.cordoned[i] = policy.Cordoned[member.ID] && !pl.excluded[i]
		pl.ownedElsewhere[i], pl.weights[i] = policy.ownedElsewhere[member.ID], int(member.Weight)
	}
	return pl
}

// activeMembers returns the members that are not excluded, sorted by index.
func (pl *placement) activeMembers() []int16 {
	var active []int16
	for i, excluded := range pl.excluded {
		if !excluded {
			active = append(active, int16(i))
		}
	}
	return active
}

// releaseIdle orphans the idle shards of gradually drained members.
func (pl *placement) releaseIdle(policy Policy) {
	for shard, isIdle := range policy.IdleShards {
		if !isIdle || int(shard) >= len(pl.shardMap.owners) || pl.shardMap.owners[shard] == noOwner {
			continue
		}
		owner := pl.shardMap.members[pl.shardMap.owners[shard]].ID
		if policy.GraduallyDrained[owner] && !policy.Restarting[owner] {
			pl.shardMap.owners[shard] = noOwner
		}
	}
}

// releaseEmptied orphans the shards of emptied members, if a member that can receive shards is not barred from them.
func (pl *placement) releaseEmptied(policy Policy, active []int16) {
	if len(policy.Emptied) == 0 || policy.Paused {
		return
	}
	receivers := pl.receiversOf(active)
	barred := pl.shardMap.barredSets(policy.Barred)
	for shard, owner := range pl.shardMap.owners {
		if owner == noOwner {
			continue
		}
		id := pl.shardMap.members[owner].ID
		if !policy.Emptied[id] || policy.GraduallyDrained[id] || policy.Restarting[id] {
			continue
		}
		if slices.ContainsFunc(receivers, func(i int16) bool { return !barred[i].Has(Shard(shard)) }) {
			pl.shardMap.owners[shard] = noOwner
		}
	}
}

// receiversOf returns the active members that can receive shards.
func (pl *placement) receiversOf(active []int16) []int16 {
	receivers := slices.DeleteFunc(slices.Clone(active), func(i int16) bool { return pl.cordoned[i] })
	if len(receivers) == 0 {
		return active
	}
	return receivers
}

// placeOnSubstitutes fixes each orphaned shard from which all members that can receive it are barred to the substitute
// with the fewest shards that is not barred. Without such a substitute, the shard is placed like any other.
func (pl *placement) placeOnSubstitutes(policy Policy, active []int16) {
	if len(policy.Substitutes) == 0 || len(policy.Barred) == 0 {
		return
	}
	receivers := pl.receiversOf(active)
	barred := pl.shardMap.barredSets(policy.Barred)
	counts := make([]int, len(pl.shardMap.members))
	for _, owner := range pl.shardMap.owners {
		if owner != noOwner {
			counts[owner]++
		}
	}
	for shard, owner := range pl.shardMap.owners {
		if owner != noOwner || slices.ContainsFunc(receivers, func(i int16) bool { return !barred[i].Has(Shard(shard)) }) {
			continue
		}
		substitute := int16(noOwner)
		for i, member := range pl.shardMap.members {
			canOwn := policy.Substitutes[member.ID] && !policy.Restarting[member.ID] && !policy.GraduallyDrained[member.ID] && !barred[i].Has(Shard(shard))
			if canOwn && (substitute == noOwner || counts[i] < counts[substitute]) {
				substitute = int16(i)
			}
		}
		if substitute != noOwner {
			pl.fixOwner(shard, substitute)
			counts[substitute]++
		}
	}
}

// fixAssigned fixes the shards in Policy.Assigned to their owners.
func (pl *placement) fixAssigned(policy Policy) {
	if policy.Paused {
		return
	}
	mustStay := func(i int) bool {
		id := pl.shardMap.members[i].ID
		return policy.Restarting[id] || policy.GraduallyDrained[id]
	}
	for _, assigned := range slices.Sorted(maps.Keys(policy.Assigned)) {
		shard, i := int(assigned), pl.shardMap.memberIndex(policy.Assigned[assigned])
		if shard >= len(pl.stage) || i == noOwner || mustStay(i) {
			continue
		}
		if owner := pl.shardMap.owners[shard]; owner == noOwner || !mustStay(int(owner)) {
			pl.fixOwner(shard, int16(i))
		}
	}
}

// fixOwners fixes each shard to its owner, if match returns true for the owner and the shard is not fixed yet.
func (pl *placement) fixOwners(match func(owner int16) bool) {
	for shard, owner := range pl.shardMap.owners {
		if owner != noOwner && pl.stage[shard] != stageFixed && match(owner) {
			pl.fixOwner(shard, owner)
		}
	}
}

// fixOwner makes owner the final owner of the shard.
func (pl *placement) fixOwner(shard int, owner int16) {
	pl.shardMap.owners[shard], pl.stage[shard] = owner, stageFixed
	pl.alreadyPlaced[owner]++
}

// pinZones contains the zones to which shards can be pinned.
type pinZones struct {
	zoneOf map[NodeID]string // Policy.Zones
	// stage contains the stage of each zone; zero (stageRest) means that no member of the zone can
	// receive shards.
	stage   map[string]int16
	members [][]int16 // by zone, in the order of the stages: members that belong to the zone
	// hasUnknown is true if the zone of a member is unknown. Nodes announce their zones themselves,
	// so that happens right after an election. Shards that are pinned to a zone must not move for
	// that reason.
	hasUnknown bool
}

// membersOf returns the members of the zone with the given stage.
func (z *pinZones) membersOf(stage int16) []int16 { return z.members[stage-firstZoneStage] }

// newPinZones assigns a stage to each zone with a member that can receive shards.
func (pl *placement) newPinZones(policy Policy) *pinZones {
	zones := &pinZones{zoneOf: policy.Zones, stage: map[string]int16{}}
	for i, member := range pl.shardMap.members {
		zone := policy.Zones[member.ID]
		if zone == "" || pl.cordoned[i] || pl.excluded[i] {
			continue
		}
		if _, known := zones.stage[zone]; !known {
			zones.stage[zone] = firstZoneStage + int16(len(zones.members))
			zones.members = append(zones.members, nil)
		}
	}
	for i, member := range pl.shardMap.members {
		if pl.excluded[i] {
			continue
		}
		zone, known := policy.Zones[member.ID]
		zones.hasUnknown = zones.hasUnknown || !known
		if stage := zones.stage[zone]; stage != stageRest {
			zones.members[stage-firstZoneStage] = append(zones.membersOf(stage), int16(i))
		}
	}
	return zones
}

// applyPins fixes the owners of shards that are pinned to a node, and assigns shards that are
// pinned to a zone to the stage of that zone. It returns the members of each zone stage, in the
// order of the stages.
func (pl *placement) applyPins(policy Policy) [][]int16 {
	if len(policy.Pins) == 0 {
		return nil
	}
	zones := pl.newPinZones(policy)
	for _, pinned := range slices.Sorted(maps.Keys(policy.Pins)) {
		shard, pin := int(pinned), policy.Pins[pinned]
		if shard >= len(pl.stage) || pl.stage[shard] == stageFixed {
			continue
		}
		if pin.Node != "" {
			pl.pinToNodes(shard, pin.Node, policy.PinFallbacks[pinned])
		} else {
			pl.pinToZone(shard, pin.Zone, zones)
		}
	}
	return zones.members
}

// pinToNodes fixes the shard to the first of the nodes of its pin that can own it.
func (pl *placement) pinToNodes(shard int, node NodeID, fallbacks []NodeID) {
	isFixed := pl.pinToNode(shard, node)
	for i := 0; i < len(fallbacks) && !isFixed; i++ {
		isFixed = pl.pinToNode(shard, fallbacks[i])
	}
}

// pinToNode fixes the shard to node, if node is a member that owns it or can receive it. It returns false
// if node is not.
func (pl *placement) pinToNode(shard int, node NodeID) bool {
	i := pl.shardMap.memberIndex(node)
	if i == noOwner || pl.excluded[i] {
		return false
	}
	if int(pl.shardMap.owners[shard]) != i && !pl.canBePinned(int16(i), shard) {
		return false
	}
	pl.fixOwner(shard, int16(i))
	return true
}

// canBePinned reports whether member i, which does not own the shard, can receive it because of a
// pin.
func (pl *placement) canBePinned(i int16, shard int) bool {
	return !pl.cordoned[i] && pl.canReceive(i, shard)
}

// pinToZone assigns the shard to the stage of its zone. If every member of the zone is barred from
// the shard, the shard is placed as if it had no pin.
func (pl *placement) pinToZone(shard int, zone string, zones *pinZones) {
	stage := zones.stage[zone]
	if stage != stageRest && pl.barred != nil && !pl.zoneCanOwn(zones.membersOf(stage), shard) {
		return
	}
	owner := pl.shardMap.owners[shard]
	isInZone := owner != noOwner && zones.zoneOf[pl.shardMap.members[owner].ID] == zone
	mayBeInZone := owner != noOwner && zones.hasUnknown // the zone of the owner may be the unknown one
	if mayBeInZone || isInZone && stage == stageRest {
		pl.fixOwner(shard, owner)
		return
	}
	if stage == stageRest {
		return
	}
	pl.stage[shard] = stage
	if !isInZone {
		pl.shardMap.owners[shard] = noOwner
	}
}

// zoneCanOwn reports whether a member of a zone owns the shard or can receive it.
func (pl *placement) zoneCanOwn(zone []int16, shard int) bool {
	return slices.ContainsFunc(zone, func(i int16) bool {
		return pl.shardMap.owners[shard] == i || pl.canBePinned(i, shard)
	})
}

// spread places the shards of a stage on the given members, which are sorted by index. Members
// above their target release shards. These and the orphaned shards go to the members below their
// target.
func (pl *placement) spread(stage int16, members []int16) {
	if pl.barred != nil {
		pl.spreadBarred(stage, members)
		return
	}
	ownedInStage, shardCount := pl.countStage(stage)
	targets := pl.targetCounts(shardCount, members, ownedInStage)
	r := pl.newReceivers(members, targets, ownedInStage)
	if len(r.members) > 0 { // without receivers no member is above its target
		pl.releaseSurplus(stage, ownedInStage, targets, r)
	}
	pl.returnOrphans(stage, r)
	for shard, shardStage := range pl.stage {
		if shardStage != stage {
			continue
		}
		owner := pl.shardMap.owners[shard]
		if owner == noOwner {
			owner = r.assign(shard)
		}
		pl.fixOwner(shard, owner)
	}
}

// countStage returns how many shards of the stage each member owns, and the number of all shards of
// the stage.
func (pl *placement) countStage(stage int16) (ownedInStage []int, shardCount int) {
	ownedInStage = make([]int, len(pl.shardMap.members))
	for shard, owner := range pl.shardMap.owners {
		if pl.stage[shard] != stage {
			continue
		}
		shardCount++
		if owner != noOwner {
			ownedInStage[owner]++
		}
	}
	return ownedInStage, shardCount
}

// newReceivers returns those of the given members that own fewer shards of a stage than their
// target.
func (pl *placement) newReceivers(members []int16, targets, ownedInStage []int) *receivers {
	receivers := &receivers{shortfall: make([]int, len(pl.shardMap.members)), bestReceiver: make([]int16, len(pl.shardMap.owners))}
	for _, i := range members {
		receivers.shortfall[i] = targets[i] - ownedInStage[i]
		if receivers.shortfall[i] > 0 {
			receivers.members = append(receivers.members, i)
			receivers.hashes = append(receivers.hashes, xxhash.Sum64String(string(pl.shardMap.members[i].ID)))
		}
	}
	if len(receivers.members) > 0 {
		for shard := range receivers.bestReceiver {
			receivers.bestReceiver[shard] = noOwner
		}
	}
	return receivers
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
	indexes := make([]int16, len(names))
	for shard, name := range names {
		indexes[shard] = noOwner
		if i, ok := known[name]; ok {
			indexes[shard] = i
		}
	}
	return indexes
}

// returnTarget returns the previous owner of the shard, if that is a receiver that still needs
// shards, and noOwner otherwise.
func (pl *placement) returnTarget(shard int, r *receivers) int16 {
	if pl.previous == nil {
		return noOwner
	}
	previousOwner := pl.previous[shard]
	if previousOwner == noOwner || r.shortfall[previousOwner] <= 0 {
		return noOwner
	}
	return previousOwner
}

// returnOrphans returns the orphaned shards of a stage to their previous owners.
func (pl *placement) returnOrphans(stage int16, r *receivers) {
	if pl.previous == nil {
		return
	}
	for shard, shardStage := range pl.stage {
		if shardStage != stage || pl.shardMap.owners[shard] != noOwner {
			continue
		}
		if owner := pl.returnTarget(shard, r); owner != noOwner {
			pl.shardMap.owners[shard] = owner
			r.received(owner)
		}
	}
}

// releaseSurplus orphans the shards that members own above their target. The first choice are
// shards that came from a receiver, starting with the most recent ones: a node that restarts gets
// back the shards that it had, and each of them moves only twice. The second choice are the shards
// with the highest score at a receiver, which are often the same in each call.
func (pl *placement) releaseSurplus(stage int16, ownedInStage, targets []int, r *receivers) {
	// surplus contains, for each member above its target, one key per shard. The shards with the
	// highest keys leave.
	surplus := make([][]uint64, len(ownedInStage))
	for i, n := range ownedInStage {
		if n > targets[i] {
			surplus[i] = make([]uint64, 0, n)
		}
	}
	for shard, owner := range pl.shardMap.owners {
		if owner != noOwner && pl.stage[shard] == stage && surplus[owner] != nil {
			surplus[owner] = append(surplus[owner], pl.releaseKey(shard, r))
		}
	}
	for i, keys := range surplus {
		if keys == nil {
			continue
		}
		selectSmallest(keys, targets[i])
		for _, key := range keys[targets[i]:] {
			pl.shardMap.owners[key%MaxShards] = noOwner
		}
	}
}

// releaseKey returns the key by which releaseSurplus chooses shards. The highest bit is set for a
// shard that came from a receiver. The lowest 16 bits are the shard number, so all keys differ. The
// bits in between are the ownership epoch of a shard that came from a receiver, and otherwise the
// score of the shard.
func (pl *placement) releaseKey(shard int, r *receivers) uint64 {
	key := r.score(shard) >> 1
	if pl.returnTarget(shard, r) != noOwner {
		key = 1<<63 | uint64(pl.since[shard])<<17>>1
	}
	return key&^(MaxShards-1) | uint64(shard)
}
