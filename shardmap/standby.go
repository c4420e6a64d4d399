package shardmap

import (
	"maps"
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// MaxReplicas is the maximum number of standbys of a shard.
const MaxReplicas = 8

// Standbys ranks the nodes that would own each shard of a map next. The result depends only on the map and
// the policy, so all nodes with the same inputs compute the same standbys. It is immutable, so any number of
// goroutines may use it. The zero value has no standbys.
type Standbys struct {
	shardMap *Map
	policy   Policy
	groups   []standbyGroup
	// The following slices are indexed by member.
	hashes []uint64
	zones  []int16 // number of the zone; members without a zone share one number
}

// standbyGroup contains the shards of one service and the members that can be their standbys.
type standbyGroup struct {
	service    Service
	replicas   int
	candidates []int16
	hasWeights bool // the weights of the candidates differ
}

// Standbys returns the standbys of the shards of m. Policy.Replicas is their number for each shard; with
// Policy.Services, it is Service.Replicas.
//
// Standbys ranks all members except the owner, cordoned, drained, gradually drained and emptied ones. If the
// policy has services, it ranks only members that own a shard of the same service. The order is:
//
//  1. the nodes and the zone of the pin of the shard;
//  2. members in zones that contain the fewest of the owner and the earlier standbys;
//  3. members with the highest weighted rendezvous score.
//
// If a member that is neither owner nor standby leaves, the standbys of the shard do not change. If a standby
// leaves, the later ones move up. Zones can change their order.
func (m *Map) Standbys(policy Policy) *Standbys {
	st := &Standbys{shardMap: m, policy: policy}
	services := normalizeServices(policy.Services)
	if len(services) == 0 {
		services = []Service{{Count: max(m.Len(), 1), Replicas: policy.Replicas}}
	}
	if !slices.ContainsFunc(services, func(service Service) bool { return service.Replicas > 0 }) {
		return st
	}
	st.addMembers()
	for _, service := range services {
		group := standbyGroup{service: service, replicas: min(max(service.Replicas, 0), MaxReplicas)}
		if group.replicas > 0 {
			group.candidates = st.candidates(service)
			group.hasWeights = slices.ContainsFunc(group.candidates, func(i int16) bool {
				return m.members[i].Weight != m.members[group.candidates[0]].Weight
			})
		}
		st.groups = append(st.groups, group)
	}
	return st
}

// addMembers sets hashes and zones.
func (st *Standbys) addMembers() {
	numbers := map[string]int16{"": 0}
	for _, member := range st.shardMap.members {
		st.hashes = append(st.hashes, xxhash.Sum64String(string(member.ID)))
		zone := st.policy.Zones[member.ID]
		if _, known := numbers[zone]; !known {
			numbers[zone] = int16(len(numbers))
		}
		st.zones = append(st.zones, numbers[zone])
	}
}

// candidates returns the members that can be standbys of the shards of a service.
func (st *Standbys) candidates(service Service) []int16 {
	needsShards := len(st.policy.Services) > 0 || st.policy.isPartOfServices
	owns := make([]bool, len(st.shardMap.members))
	for shard := int(service.First); shard < min(service.End(), st.shardMap.Len()); shard++ {
		if owner := st.shardMap.owners[shard]; owner != noOwner {
			owns[owner] = true
		}
	}
	var candidates []int16
	for i, member := range st.shardMap.members {
		if st.policy.mayBeStandby(member) && (owns[i] || !needsShards) {
			candidates = append(candidates, int16(i))
		}
	}
	return candidates
}

// mayBeStandby reports whether the policy allows the member to receive shards after a failure. A member that
// restarts in place can receive none now, but it returns soon.
func (p *Policy) mayBeStandby(member Member) bool {
	return !p.Cordoned[member.ID] && !p.GraduallyDrained[member.ID] && !p.Emptied[member.ID] && !p.DrainsAll(member)
}

// Equal reports whether both have the same standbys because they have the same map and the same inputs of the policy.
func (st *Standbys) Equal(other *Standbys) bool {
	sameGroup := func(a, b standbyGroup) bool {
		return a.service.First == b.service.First && a.service.Count == b.service.Count && a.replicas == b.replicas && slices.Equal(a.candidates, b.candidates)
	}
	samePins := maps.Equal(st.policy.Pins, other.policy.Pins) && maps.EqualFunc(st.policy.PinFallbacks, other.policy.PinFallbacks, slices.Equal[[]NodeID])
	return st.shardMap == other.shardMap && samePins && maps.Equal(st.policy.Zones, other.policy.Zones) && slices.EqualFunc(st.groups, other.groups, sameGroup)
}

// IsEmpty reports whether no shard can have a standby.
func (st *Standbys) IsEmpty() bool {
	return !slices.ContainsFunc(st.groups, func(group standbyGroup) bool { return len(group.candidates) > 0 })
}

// Replicas returns the number of standbys that the shard should have.
func (st *Standbys) Replicas(shard Shard) int {
	if group := st.group(shard); group != nil {
		return group.replicas
	}
	return 0
}

// Of returns the standbys of the shard, the next owner first. A shard without an owner has none.
func (st *Standbys) Of(shard Shard) []NodeID {
	var ids []NodeID
	for _, i := range st.indexes(shard) {
		ids = append(ids, st.shardMap.members[i].ID)
	}
	return ids
}

// Indexes returns the standbys of the shard as Of does, as indexes in Map.Members.
func (st *Standbys) Indexes(shard Shard) []int {
	indexes := []int{}
	for _, i := range st.indexes(shard) {
		indexes = append(indexes, int(i))
	}
	return indexes
}

// IsCandidate reports whether the member could be a standby of the shard if the shard had more standbys.
func (st *Standbys) IsCandidate(shard Shard, id NodeID) bool {
	group, i := st.group(shard), st.shardMap.memberIndex(id)
	return group != nil && i != noOwner && slices.Contains(group.candidates, int16(i))
}

// group returns the group of the shard, or nil if it has none.
func (st *Standbys) group(shard Shard) *standbyGroup {
	for i := range st.groups {
		if st.groups[i].service.Contains(shard) {
			return &st.groups[i]
		}
	}
	return nil
}

// indexes returns the standbys of the shard as indexes in Map.members.
func (st *Standbys) indexes(shard Shard) []int16 {
	group := st.group(shard)
	owner := int16(noOwner)
	if int(shard) < st.shardMap.Len() {
		owner = st.shardMap.owners[shard]
	}
	if group == nil || group.replicas == 0 || owner == noOwner {
		return nil
	}
	ranking := st.newRanking(group, shard, owner)
	var chosen []int16
	for len(chosen) < group.replicas && len(ranking.remaining) > 0 {
		chosen = append(chosen, ranking.takeBest())
	}
	return chosen
}

// standbyRanking chooses the standbys of one shard, one after the other.
type standbyRanking struct {
	remaining []rankedMember
	zoneUses  []int // by number of the zone: owner and standbys in it
}

// rankedMember is a member that can be chosen. The member with the lowest pinRank and then the least used zone
// is chosen first; the score decides between equals, and then the hash.
type rankedMember struct {
	index   int16
	zone    int16
	pinRank int
	score   uint64 // grows with the weight
	hash    uint64 // of shard and member
}

// newRanking returns the ranking of a shard with the given owner, from which no standby has been chosen.
func (st *Standbys) newRanking(group *standbyGroup, shard Shard, owner int16) *standbyRanking {
	ranking := &standbyRanking{zoneUses: make([]int, len(st.hashes)+1), remaining: make([]rankedMember, 0, len(group.candidates))}
	ranking.zoneUses[st.zones[owner]]++
	// The hash differs from that by which Assign chooses owners. Otherwise the owner of a shard would influence
	// its standbys, and a failure would move most shards to a few nodes.
	_, isPinned := st.policy.Pins[shard]
	shardHash := hashShard(MaxShards + int(shard-group.service.First))
	for _, i := range group.candidates {
		if i == owner {
			continue
		}
		high, low := bits.Mul64(st.hashes[i], shardHash)
		hash := high ^ low
		candidate := rankedMember{index: i, zone: st.zones[i], hash: hash}
		if isPinned {
			candidate.pinRank = st.pinRank(shard, i)
		}
		if group.hasWeights { // otherwise the score has the order of the hash
			candidate.score = weightedScore(hash, st.shardMap.members[i].Weight)
		}
		ranking.remaining = append(ranking.remaining, candidate)
	}
	return ranking
}

// pinRank returns 0 for the first node of the pin of a pinned shard or for a node in its zone, a higher number for
// the fallbacks of the pin, and the highest one for all other nodes.
func (st *Standbys) pinRank(shard Shard, member int16) int {
	pin := st.policy.Pins[shard]
	id, fallbacks := st.shardMap.members[member].ID, st.policy.PinFallbacks[shard]
	if id == pin.Node || pin.Node == "" && pin.Zone == st.policy.Zones[id] {
		return 0
	}
	if i := slices.Index(fallbacks, id); i >= 0 {
		return i + 1
	}
	return len(fallbacks) + 1
}

// takeBest removes the best remaining member and returns its index.
func (r *standbyRanking) takeBest() int16 {
	best := 0
	for position := range r.remaining {
		if r.isBetter(&r.remaining[position], &r.remaining[best]) {
			best = position
		}
	}
	chosen := r.remaining[best]
	last := len(r.remaining) - 1
	r.remaining[best] = r.remaining[last] // the order of the remaining members does not matter
	r.remaining = r.remaining[:last]
	r.zoneUses[chosen.zone]++
	return chosen.index
}

// isBetter reports whether a is a better standby than b. Most members differ in the first comparisons, so isBetter
// makes the others only if necessary.
func (r *standbyRanking) isBetter(a, b *rankedMember) bool {
	if a.pinRank != b.pinRank {
		return a.pinRank < b.pinRank
	}
	if usesA, usesB := r.zoneUses[a.zone], r.zoneUses[b.zone]; usesA != usesB {
		return usesA < usesB
	}
	if a.score != b.score {
		return a.score > b.score
	}
	if a.hash != b.hash {
		return a.hash > b.hash
	}
	return a.index < b.index
}

// logFraction is the number of fractional bits of negativeLog2.
const logFraction = 24

// weightedScore returns the score of weighted rendezvous hashing: weight / -log2(hash / 2^64), multiplied by
// a constant. It uses integers only, so it is the same on all machines.
func weightedScore(hash uint64, weight uint32) uint64 {
	return uint64(weight) << 48 / negativeLog2(hash)
}

// negativeLog2 returns -log2(hash / 2^64) with logFraction fractional bits, and at least 1.
func negativeLog2(hash uint64) uint64 {
	hash = max(hash, 1)
	exponent := bits.LeadingZeros64(hash)
	mantissa := hash << exponent // from 1 to 2, with 63 fractional bits
	var fraction uint64
	for range logFraction {
		high, low := bits.Mul64(mantissa, mantissa) // from 1 to 4, with 126 fractional bits
		fraction <<= 1
		if high>>63 == 1 { // the square is at least 2
			fraction |= 1
			mantissa = high
		} else {
			mantissa = high<<1 | low>>63
		}
	}
	return max(uint64(exponent+1)<<logFraction-fraction, 1)
}

// placeOnStandbys gives each shard whose owner is gone to its first standby that can receive it. Then the
// other shards keep their owners: the next call of Assign makes the numbers of shards even. Otherwise shards
// of live owners, with their requests, would delay the takeover. standbys are those of the previous map.
func (pl *placement) placeOnStandbys(policy Policy, standbys *Standbys) {
	if standbys == nil || standbys.IsEmpty() {
		return
	}
	barred, converted := pl.shardMap.barredSets(policy.Barred), standbys.shardMap.translationTo(pl.shardMap.members)
	hasPlaced := false
	for shard, owner := range pl.shardMap.owners {
		if owner != noOwner || policy.KeptShards[Shard(shard)] {
			continue
		}
		for _, standby := range standbys.indexes(Shard(shard)) {
			i := converted.newIndex(standby)
			if i == noOwner || pl.excluded[i] || pl.cordoned[i] || barred[i].Has(Shard(shard)) || pl.leavesZoneOfPin(policy, shard, i) {
				continue
			}
			pl.fixOwner(shard, i)
			hasPlaced = true
			break
		}
	}
	if hasPlaced {
		pl.fixOwners(func(int16) bool { return true })
	}
}

// leavesZoneOfPin reports whether the shard must be placed in the zone of its pin, and the member is in
// another zone.
func (pl *placement) leavesZoneOfPin(policy Policy, shard int, member int16) bool {
	return pl.stage[shard] >= firstZoneStage && policy.Zones[pl.shardMap.members[member].ID] != policy.Pins[Shard(shard)].Zone
}
