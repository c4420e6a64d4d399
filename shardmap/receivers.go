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
	hash  []uint64
	index []int16

	missing []int   // by member: number of shards below the target
	best    []int16 // by shard: receiver with the highest score among all receivers, or noOwner
}

// score returns the highest rendezvous score of shard s among the receivers, and stores that
// receiver in best.
//
// The low bits of each score are replaced by the index of the receiver, so the loop body is one
// multiplication and one maximum, without a branch that can be mispredicted. Assign spends most of
// its time in this loop.
func (r *receivers) score(s int) uint64 {
	var score uint64
	x := hashShard(s)
	for i, h := range r.hash {
		hi, lo := bits.Mul64(h, x)
		score = max(score, (hi^lo)&^(MaxMembers-1)|uint64(i))
	}
	r.best[s] = r.index[score%MaxMembers]
	return score
}

// assign chooses the receiver of shard s and returns its index. It panics if there is no receiver,
// which cannot happen: the receivers need exactly as many shards as are orphaned.
func (r *receivers) assign(s int) int16 {
	// The cached receiver is still the best one, unless it has reached its target.
	if o := r.best[s]; o == noOwner || r.missing[o] == 0 {
		r.score(s)
	}
	o := r.best[s]
	r.received(o)
	return o
}

// received records that member o has received a shard, and removes o when it has reached its
// target.
func (r *receivers) received(o int16) {
	if r.missing[o]--; r.missing[o] == 0 {
		at := slices.Index(r.index, o)
		r.hash = slices.Delete(r.hash, at, at+1)
		r.index = slices.Delete(r.index, at, at+1)
	}
}

// hashShard spreads a shard number over 64 bits (the finalizer of splitmix64). The result is never
// 0.
func hashShard(s int) uint64 {
	z := (uint64(s) + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
