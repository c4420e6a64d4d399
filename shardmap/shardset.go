package shardmap

import "slices"

// ShardSet is a set of shards with one bit per shard: shard s is bit s%64 of word s/64.
// nil is the empty set. A ShardSet has at most MaxShards/64 words (8 KiB).
type ShardSet []uint64

// Has reports whether the shard is in the set.
func (set ShardSet) Has(shard Shard) bool {
	return int(shard/64) < len(set) && set[shard/64]>>(shard%64)&1 == 1
}

// Add adds a shard to the set, which grows as needed. It must be less than MaxShards.
func (set *ShardSet) Add(shard Shard) {
	if word := int(shard / 64); word >= len(*set) {
		*set = append(*set, make(ShardSet, word+1-len(*set))...)
	}
	(*set)[shard/64] |= 1 << (shard % 64)
}

// Union returns a new set that contains the shards of both sets.
func (set ShardSet) Union(other ShardSet) ShardSet {
	if len(set) < len(other) {
		set, other = other, set
	}
	union := slices.Clone(set)
	for i, word := range other {
		union[i] |= word
	}
	return union
}

// Intersection returns a new set that contains the shards that are in both sets.
func (set ShardSet) Intersection(other ShardSet) ShardSet {
	intersection := slices.Clone(set[:min(len(set), len(other))])
	for i := range intersection {
		intersection[i] &= other[i]
	}
	return intersection
}
