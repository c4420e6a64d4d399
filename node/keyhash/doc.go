// Package keyhash hashes shard keys with a key of the cluster, and recognizes quarantined keys by their hashes.
//
// Access logs, findings and quarantines contain the hash of a shard key (key_hash) instead of the shard key. A
// Hasher derives the hash key from the secret of the cluster, or from its ID if there is no secret.
//
// # Concurrency
//
// All methods of Hasher are safe for concurrent use. The node calls UpdateQuarantine after the policy, the
// secrets or the cluster ID has changed.
//
// # Invariants
//
//   - All nodes with the same secret and the same cluster ID use the same hash key.
//   - While the secret is being replaced, keys are recognized under both secrets.
package keyhash
