package shardmap

import "slices"

// ShardSet is a set of shards with one bit per shard: shard s is bit s%64 of word s/64.
// nil is the empty set. A ShardSet has at most MaxShards/64 words (8 KiB).
type ShardSet []uint64

// Has reports whether s is in the set.
func (x ShardSet) Has(s Shard) bool {
	return int(s/64) < len(x) && x[s/64]>>(s%64)&1 == 1
}

// Add adds s to the set, which grows as needed. s must be less than MaxShards.
func (x *ShardSet) Add(s Shard) {
	if word := int(s / 64); word >= len(*x) {
		*x = append(*x, make(ShardSet, word+1-len(*x))...)
	}
	(*x)[s/64] |= 1 << (s % 64)
}

// Union returns a new set that contains the shards of both sets.
func (x ShardSet) Union(y ShardSet) ShardSet {
	if len(x) < len(y) {
		x, y = y, x
	}
	z := slices.Clone(x)
	for i, word := range y {
		z[i] |= word
	}
	return z
}
