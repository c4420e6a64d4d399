package shardmap

import "slices"

// Assign derives a map from prev in which members own the shards, as far as the policy p permits.
// The same prev, members (in any order) and p always result in the same map. Another call with that
// map as prev moves no shard.
//
// The number of shards of each member differs from its weighted quota by less than one shard. The
// number of moved shards is the minimum for that: all orphaned shards, plus the surplus of members
// that own more than their target. The targets are rounded in the way that minimizes the surplus. A
// member of prev that is not in members loses its shards. Without any members all shards become
// orphans.
//
// The policy changes this as follows:
//
//   - Pins to a node are applied first. Then the shards that are pinned to a zone are spread over that
//     zone, and then the remaining shards over all members. Each step is as even as the previous steps
//     permit, with the fewest moves.
//   - A cordoned member keeps its shards, but not more than its quota rounded up. The other members share
//     the rest.
//   - With Policy.SpreadZones, each zone has the same quota, and its members share it by their weights.
//   - If all members are cordoned, or moves are paused, each shard stays with its owner.
//   - Shards of restarting members are excluded from all steps. If all members are restarting or
//     gradually drained, orphaned shards remain orphaned.
//   - Shards of gradually drained members are excluded as well, except that their idle shards are placed
//     like orphaned shards.
//   - Emptied members receive nothing. Their shards are placed like orphaned shards. While moves are paused, they
//     keep their shards.
//   - Shards in Policy.Assigned are placed first, also on a cordoned or emptied member.
//   - An orphaned shard goes to a member in Policy.Substitutes if every other member that can receive it is barred from
//     it.
//   - Policy.DefersMoves and Policy.KeptShards defer moves: these shards stay with their owners, and the numbers of
//     shards differ from the quotas by the deferred moves.
//   - Among shards that can move equally well, Assign moves those that return to their previous owner
//     (Policy.PreviousOwners). As a result, a restarted node receives the shards that it had.
//   - If a shard would move to a member that is barred from it (Policy.Barred), Assign places all shards
//     again under this constraint and ignores the minimum of moves. The result is as even as moves of
//     single shards can make it. A barred member receives a shard only if no other member can own it.
//
// With standbys (Policy.Replicas), a shard whose owner is gone goes to its first standby that can receive it. Other
// shards then keep their owners, so the numbers of shards can differ by more than one. Another call with that map
// as prev makes them even.
//
// The result has the epoch of prev, and the ownership epochs of prev for shards that stay. Shards that move have
// ownership epoch 0 until WithEpoch. Assign corrects invalid members. It limits weights to the permitted range,
// drops invalid ids, and keeps the heaviest of several members with one id. Beyond MaxMembers, it drops the members
// with the last ids.
//
// Each shard also has an instance of its owner, from Member.Instances. placeInstances describes how
// the shards of a member are spread over its instances; that changes no owner.
//
// If the policy has services, all this applies to each service separately, with the members that run
// the service (assignServices). The result is then as long as the ranges of the services need, and not
// shorter than prev.
//
// The cost is about one multiplication for each pair of a moving shard and a receiving member.
func Assign(prev *Map, members []Member, policy Policy) *Map {
	members = normalize(members)
	if len(policy.Services) > 0 {
		return assignServices(prev, members, policy)
	}
	return assignAll(prev, members, policy)
}

// assignAll places all shards of prev on the members, which must be normalized.
func assignAll(prev *Map, members []Member, policy Policy) *Map {
	healthy := make(map[NodeID]InstanceSet, len(members))
	for _, member := range members {
		healthy[member.ID] = member.Instances
	}
	next := &Map{
		epoch:   prev.epoch,
		members: normalize(policy.eligible(members)),
		owners:  make([]int16, prev.Len()),
		since:   make([]Epoch, prev.Len()),
	}
	converted := prev.translationTo(next.members)
	for shard, owner := range prev.owners {
		next.owners[shard] = converted.newIndex(owner)
	}
	if len(next.members) > 0 {
		standbys := prev.Standbys(policy)
		next.releaseBarredWithinNodes(prev, policy, converted)
		beforePlacement := slices.Clone(next.owners)
		next.place(policy, prev.since, nil, standbys)
		if next.violatesBarred(beforePlacement, policy.Barred) {
			next.owners = beforePlacement
			next.place(policy, prev.since, next.barredSets(policy.Barred), standbys)
		}
	}
	if len(policy.DefersMoves)+len(policy.KeptShards) > 0 {
		next.deferMoves(prev, policy, healthy)
		converted = prev.translationTo(next.members)
	}
	next.placeInstances(prev, policy, healthy)
	next.updateCounts()
	for shard, owner := range prev.owners {
		isSameOwner := next.owners[shard] != noOwner && next.owners[shard] == converted.newIndex(owner)
		if isSameOwner && next.instanceOf(shard) == prev.instanceOf(shard) {
			next.since[shard] = prev.since[shard]
		}
	}
	return next
}
