package shardmap

import (
	"math/bits"
	"slices"
)

// receivers are the members below their target while Assign places shards. Each shard goes to the
// receiver with the highest rendezvous score. The targets decide how many shards a member receives,
// so the score only chooses between assignments that are equally good.
type receivers struct {
	// Parallel slices, sorted by member. They are separate so that the loop in score reads hashes
	// only.
	hashes  []uint64
	members []int16

	shortfall    []int   // by member: number of shards below the target
	bestReceiver []int16 // by shard: receiver with the highest score among all receivers, or noOwner
}

// score returns the highest rendezvous score of the shard among the receivers, and stores that
// receiver in bestReceiver.
//
// The low bits of each score are replaced by the index of the receiver, so the loop body is one
// multiplication and one maximum, without a branch that can be mispredicted. Assign spends most of
// its time in this loop.
func (r *receivers) score(shard int) uint64 {
	var score uint64
	shardHash := hashShard(shard)
	for i, receiverHash := range r.hashes {
		high, low := bits.Mul64(receiverHash, shardHash)
		score = max(score, (high^low)&^(MaxMembers-1)|uint64(i))
	}
	r.bestReceiver[shard] = r.members[score%MaxMembers]
	return score
}

// assign chooses the receiver of the shard and returns its index. It panics if there is no
// receiver, which cannot happen: the receivers need exactly as many shards as are orphaned.
func (r *receivers) assign(shard int) int16 {
	// The cached receiver is still the best one, unless it has reached its target.
	if receiver := r.bestReceiver[shard]; receiver == noOwner || r.shortfall[receiver] == 0 {
		r.score(shard)
	}
	receiver := r.bestReceiver[shard]
	r.received(receiver)
	return receiver
}

// received records that a member has received a shard, and removes the member when it has reached
// its target.
func (r *receivers) received(receiver int16) {
	if r.shortfall[receiver]--; r.shortfall[receiver] == 0 {
		at := slices.Index(r.members, receiver)
		r.hashes = slices.Delete(r.hashes, at, at+1)
		r.members = slices.Delete(r.members, at, at+1)
	}
}

// hashShard spreads a shard number over 64 bits (the finalizer of splitmix64). The result is never
// 0.
func hashShard(shard int) uint64 {
	hash := (uint64(shard) + 1) * 0x9e3779b97f4a7c15
	hash = (hash ^ hash>>30) * 0xbf58476d1ce4e5b9
	hash = (hash ^ hash>>27) * 0x94d049bb133111eb
	return hash ^ hash>>31
}
