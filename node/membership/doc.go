// Package membership decides which nodes are members of a cluster.
//
// # Types
//
//   - Bootstrapper decides which of several new nodes bootstraps the cluster, exactly once,
//     regardless of the order in which the nodes start. The nodes give each other promises.
//   - Reconciler changes the Raft configuration while this node leads: it adds servers, makes them
//     voters, replaces disks and removes dead servers. It also raises the format version.
//   - DuplicateDetector detects another process with the same node ID, until a leader has answered
//     this process.
//   - View combines the Raft configuration with the heartbeats that the leader has received.
//
// # Concurrency
//
// The Run method of each type owns its goroutines and returns after the last one. Exported methods
// are safe for concurrent use unless their comment says otherwise.
//
// # Invariants
//
//   - Gossip only provides hints, because gossip messages can be replayed. Before a Reconciler adds
//     a server that gossip shows, the node itself must confirm it on its peer port. Gossip never
//     causes the removal of a server that sends heartbeats.
//   - No automatic removal leaves fewer than three voters.
//   - A promise is on disk before it is given.
//
// The rules are in docs/internals/protocol-membership.md.
package membership
