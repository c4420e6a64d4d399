package shardmap

import (
	"math/bits"
	"slices"
)

// receivers are the members below their target while Assign places shards. Each
// shard prefers the receiver with the highest rendezvous score: targets decide
// how many, so this only chooses among placements that are equally good.
type receivers struct {
	// In parallel, ascending by id: the loop in best touches nothing but hashes.
	hash  []uint64
	index []int16

	missing []int   // by member: shards still to come
	best    []int16 // by shard: what best found while all were there, or noOwner
}

// best returns the highest score of shard s among the receivers, and notes in
// first whose it is.
//
// The low bits of each score make room for the receiver's place, so that the loop
// is a multiplication and a maximum, without a branch to mispredict. Assign spends
// its time here.
func (r *receivers) score(s int) uint64 {
	var score uint64
	x := mix64(s)
	for i, h := range r.hash {
		hi, lo := bits.Mul64(h, x)
		score = max(score, (hi^lo)&^(MaxMembers-1)|uint64(i))
	}
	r.best[s] = r.index[score%MaxMembers]
	return score
}

// take gives shard s to the best receiver and returns its index. It panics if
// none is left, which cannot be: as many shards are free as the receivers want.
func (r *receivers) assign(s int) int16 {
	// The best of all is the best of those that are left, if it is still there.
	if o := r.best[s]; o == noOwner || r.missing[o] == 0 {
		r.score(s)
	}
	o := r.best[s]
	r.received(o)
	return o
}

// serve notes that a receiver got a shard.
func (r *receivers) received(o int16) {
	if r.missing[o]--; r.missing[o] == 0 {
		at := slices.Index(r.index, o)
		r.hash = slices.Delete(r.hash, at, at+1)
		r.index = slices.Delete(r.index, at, at+1)
	}
}

// salt spreads a shard number over 64 bits (the finalizer of splitmix64); it is
// never 0.
func mix64(s int) uint64 {
	z := (uint64(s) + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
