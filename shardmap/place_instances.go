package shardmap

import (
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// placeInstances spreads the shards of each member over its instances. On entry the members own
// their shards; prev is the previous map. healthy contains, by member, the instances that are not
// drained because of a failure.
//
// As far as the policy permits, two instances of a member own equally many shards, or one of them
// owns one more. placeInstances moves as few shards as that needs. A shard that does not move
// between instances keeps its ownership epoch.
func (m *Map) placeInstances(prev *Map, policy Policy, healthy map[NodeID]InstanceSet) {
	hasInstances := prev.instances != nil || slices.ContainsFunc(m.members, func(member Member) bool { return member.Instances != 0 })
	if !hasInstances {
		return
	}
	m.instances = make([]Instance, len(m.owners))
	converted := prev.translationTo(m.members)
	shardsOf := make([][]int, len(m.members))
	for shard, owner := range m.owners {
		if owner != noOwner {
			shardsOf[owner] = append(shardsOf[owner], shard)
		}
	}
	for i, member := range m.members {
		spread := newInstanceSpread(m, member, policy)
		// A member that only keeps its busy shards is not a candidate, and moves none within the node.
		healthySet, isCandidate := healthy[member.ID]
		for _, shard := range shardsOf[i] {
			stayed := converted.newIndex(prev.owners[shard]) == int16(i)
			if !stayed {
				spread.unplaced = append(spread.unplaced, shard)
				continue
			}
			instance := prev.instanceOf(shard)
			switch {
			case spread.mustStay(Shard(shard), instance, !isCandidate || healthySet.Has(instance)):
				spread.fix(shard, instance)
			case !member.Instances.Has(instance):
				spread.unplaced = append(spread.unplaced, shard)
			default:
				spread.keep(shard, instance)
			}
		}
		spread.place()
	}
	m.instances = normalizeInstances(m.instances)
}

// normalizeInstances returns nil if all shards are at the first instance, so that equal maps have
// equal values.
func normalizeInstances(instances []Instance) []Instance {
	if slices.ContainsFunc(instances, func(instance Instance) bool { return instance != 0 }) {
		return instances
	}
	return nil
}

// instanceOf returns the instance that runs the requests of the shard.
func (m *Map) instanceOf(shard int) Instance {
	if shard >= len(m.instances) {
		return 0
	}
	return m.instances[shard]
}

// instanceSpread spreads the shards of one member over its instances.
type instanceSpread struct {
	shardMap *Map
	member   Member
	policy   Policy

	instances []Instance // that may own shards
	ids       [MaxInstances]NodeID
	load      [MaxInstances]int
	movable   [MaxInstances][]movableShard // shards that may leave their instance
	unplaced  []int                        // shards without an instance, ascending
	// returns contains, by instance and previous instance, the number of movable shards.
	returns [MaxInstances][MaxInstances]int
}

// movableShard is a shard that its instance may lose. Shards with a lower rank move first. Rank zero
// means that the shard moves anyway, so another move is free.
type movableShard struct {
	shard int
	rank  uint64
	// previous is the instance that owned the shard before; noInstance means another owner.
	previous int8
}

// noInstance is the previous instance of a shard that another node owned before.
const noInstance = -1

// newInstanceSpread returns the spread of a member without shards.
func newInstanceSpread(m *Map, member Member, policy Policy) *instanceSpread {
	s := &instanceSpread{shardMap: m, member: member, policy: policy, instances: member.Instances.All()}
	for _, instance := range s.instances {
		s.ids[instance] = InstanceID(member.ID, instance)
	}
	return s
}

// mustStay reports whether a shard stays at its instance, even if the spread is uneven: its node restarts in
// place, map changes are paused, or the policy defers its move. A deferred move waits only if the
// instance is healthy, because a failed instance serves no request.
func (s *instanceSpread) mustStay(shard Shard, instance Instance, isHealthy bool) bool {
	switch {
	case s.policy.Restarting[s.member.ID]:
		return true
	case s.policy.Paused && s.member.Instances.Has(instance):
		return true
	}
	return isHealthy && s.policy.defersMove(shard, s.member.ID)
}

// fix places a shard that stays.
func (s *instanceSpread) fix(shard int, instance Instance) {
	s.shardMap.instances[shard] = instance
	s.load[instance]++
}

// keep leaves a shard at its instance, which may lose it for an even spread.
func (s *instanceSpread) keep(shard int, instance Instance) {
	s.fix(shard, instance)
	s.addMovable(instance, movableShard{shard: shard, rank: hashShard(shard)>>1 | 1, previous: s.previousOf(shard)})
}

// addMovable records a shard that the instance may lose.
func (s *instanceSpread) addMovable(instance Instance, movable movableShard) {
	s.movable[instance] = append(s.movable[instance], movable)
	if movable.previous != noInstance {
		s.returns[instance][movable.previous]++
	}
}

// previousOf returns the instance of this member that owned the shard before its current owner.
func (s *instanceSpread) previousOf(shard int) int8 {
	if len(s.policy.PreviousOwners) != len(s.shardMap.owners) {
		return noInstance
	}
	for _, instance := range s.instances {
		if s.policy.PreviousOwners[shard] == s.ids[instance] {
			return int8(instance)
		}
	}
	return noInstance
}

// place places the shards without an instance, and makes the spread even.
func (s *instanceSpread) place() {
	for _, shard := range s.unplaced {
		instance := s.receiverOf(shard)
		s.fix(shard, instance)
		s.addMovable(instance, movableShard{shard: shard, previous: s.previousOf(shard)})
	}
	if len(s.instances) < 2 {
		return
	}
	for _, instance := range s.instances {
		slices.SortFunc(s.movable[instance], func(a, b movableShard) int {
			return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.shard, b.shard))
		})
	}
	for s.moveOne() {
	}
}

// receiverOf returns the instance for a shard that has none: the instance with the fewest shards and,
// among equals, the previous owner. An instance that is barred from the shard gets it only if all
// are.
func (s *instanceSpread) receiverOf(shard int) Instance {
	allBarred := !slices.ContainsFunc(s.instances, func(instance Instance) bool { return !s.isBarred(shard, instance) })
	best, found, previous := Instance(0), false, s.previousOf(shard)
	for _, instance := range s.instances {
		if s.isBarred(shard, instance) && !allBarred {
			continue
		}
		if !found || s.isBetterReceiver(shard, previous, instance, best) {
			best, found = instance, true
		}
	}
	return best
}

// isBetterReceiver reports whether the shard should go to instance a rather than b.
func (s *instanceSpread) isBetterReceiver(shard int, previous int8, a, b Instance) bool {
	if s.load[a] != s.load[b] {
		return s.load[a] < s.load[b]
	}
	if previous == int8(a) || previous == int8(b) {
		return previous == int8(a)
	}
	return s.score(shard, a) > s.score(shard, b)
}

// score returns the rendezvous score of a shard at an instance.
func (s *instanceSpread) score(shard int, instance Instance) uint64 {
	return (xxhash.Sum64String(string(s.member.ID)) + uint64(instance) + 1) * hashShard(shard)
}

// isBarred reports whether the instance must not receive the shard.
func (s *instanceSpread) isBarred(shard int, instance Instance) bool {
	return s.policy.Barred != nil && s.policy.Barred[s.ids[instance]].Has(Shard(shard))
}

// moveOne moves one shard from an instance with many shards to one with at least two fewer. It
// returns false if no such move is possible.
func (s *instanceSpread) moveOne() bool {
	byLoad := slices.Clone(s.instances)
	slices.SortStableFunc(byLoad, func(a, b Instance) int { return cmp.Compare(s.load[a], s.load[b]) })
	for _, to := range byLoad {
		for _, from := range slices.Backward(byLoad) {
			if s.load[from]-s.load[to] < 2 {
				break
			}
			if s.move(from, to) {
				return true
			}
		}
	}
	return false
}

// move moves the first movable shard that the instance to is not barred from. The first choice are
// shards that move anyway, and the second one shards that to owned before.
func (s *instanceSpread) move(from, to Instance) bool {
	best := -1
	for i, candidate := range s.movable[from] {
		if s.isBarred(candidate.shard, to) {
			continue
		}
		isFirstChoice := candidate.rank == 0 || candidate.previous == int8(to)
		if best < 0 || isFirstChoice {
			best = i
		}
		if isFirstChoice || s.returns[from][to] == 0 {
			break // no later shard is better: those that move anyway come first
		}
	}
	if best < 0 {
		return false
	}
	moved := s.movable[from][best]
	s.movable[from] = slices.Delete(s.movable[from], best, best+1)
	if moved.previous != noInstance {
		s.returns[from][moved.previous]--
	}
	moved.rank = 0
	s.addMovable(to, moved)
	s.shardMap.instances[moved.shard] = to
	s.load[from]--
	s.load[to]++
	return true
}

// releaseBarredWithinNodes orphans the shards whose instance may no longer own shards, if all other
// instances of their owner are barred from them. Another member can then receive them. converted
// translates owners of prev.
func (m *Map) releaseBarredWithinNodes(prev *Map, policy Policy, converted translation) {
	if len(policy.Barred) == 0 {
		return
	}
	sets := m.barredSets(policy.Barred)
	for shard, owner := range m.owners {
		if owner == noOwner || owner != converted.newIndex(prev.owners[shard]) {
			continue
		}
		member := m.members[owner]
		mustMove := !member.Instances.Has(prev.instanceOf(shard)) && !policy.Restarting[member.ID]
		if mustMove && sets[owner].Has(Shard(shard)) {
			m.owners[shard] = noOwner
		}
	}
}
