// Package shardmap assigns shards to nodes.
//
// A key is hashed to one of a fixed number of shards (Of), and a Map says which
// node owns each shard. A Map never changes once made, so any number of
// goroutines may read it without a lock.
//
// # From one map to the next
//
//	base ──Assign(base, members, policy)──► wanted ──Settle(base, epoch)──► the next map
//
// Assign derives the wanted owners from the last map, the members that may own
// shards, and what operators ask: a Policy. It keeps what can be kept: counts
// differ from each member's weighted quota, as far as the policy leaves it to
// them, by less than one shard, and no assignment with that property moves fewer
// shards. The owners are an explicit array; hashing only decides between choices
// that are equally good. The same input gives the same bytes on every node, in
// whatever order the members are given.
//
// A placement goes by stages: what has its place already (a pin to a node, an owner
// while moves are paused), then each zone that shards are pinned to, then the rest.
//
// Settle stamps the result with the epoch at which it was proposed. It is
// separate because the epoch is the index of the log entry that carries the map,
// and so is not known when Assign runs.
//
// # Ownership epochs
//
// OwnedSince is the epoch of the map in which a shard's present owner became its
// owner. It changes exactly when the owner does and only grows; applications
// fence by it. A map fresh from Assign says 0 for shards that changed hands;
// Settle fills them in.
//
// # Purity
//
// No clock, no I/O, no randomness, no goroutines. Every function here is
// deterministic and may be called from anywhere.
package shardmap
