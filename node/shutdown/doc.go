// Package shutdown stops a node in an orderly way.
//
// A Sequence performs the steps before the components of the node stop. There are two sequences:
//
//   - Leave hands the shards over to other nodes, waits for in-flight requests, and removes the node from
//     gossip and Raft.
//   - RestartInPlace keeps the shards, whose requests wait until the node returns. The node stays a member.
//
// Both send a goodbye, which is the last heartbeat before a planned stop. A node that has failed performs neither:
// it stops like a killed process.
//
// A Stack then stops the components in reverse order of their start.
//
// One goroutine calls Leave or RestartInPlace, once. Any goroutine may call NoTakeoverReason.
package shutdown
