// Package shardmap assigns shards to nodes.
//
// A key is hashed to one of a fixed number of shards ([ShardOf]), and a [Map] contains the owner
// of each shard. A Map is immutable, so any number of goroutines may read it without a lock.
//
// # From one map to the next
//
//	prev ──Assign(prev, members, policy)──► wanted owners ──WithEpoch(prev, epoch)──► next map
//
// [Assign] derives the wanted owners from the previous map, from the members that may own
// shards, and from the [Policy] that operators have set. It guarantees:
//
//   - Balance: the number of shards of each member differs from its weighted quota by less
//     than one shard, as far as the policy permits.
//   - Minimal movement: no other balanced assignment moves fewer shards.
//   - Determinism: the same input results in the same bytes on every node, and the order of
//     the members does not matter. The owners are an explicit array; hashing only decides
//     between choices that are equally good.
//
// Assign first fixes the owner of each shard that must not move or is pinned to a node. Then
// it spreads the shards that are pinned to a zone over that zone, and finally the remaining
// shards over all members.
//
// [Map.WithEpoch] sets the epoch of the new map. The epoch is the Raft log index of the entry
// that proposes the map, so it is not known when Assign runs.
//
// # Ownership epochs
//
// [Map.OwnedSince] returns the epoch of the map in which the current owner of a shard became
// its owner. It changes exactly when the owner changes, and only grows, so applications use
// it as fencing token. A map from Assign contains ownership epoch 0 for shards that change
// their owner; WithEpoch replaces it.
//
// # Purity
//
// The package uses no clock, I/O, random numbers or goroutines. All functions are
// deterministic and safe for concurrent use, as long as no goroutine modifies their
// arguments.
package shardmap
