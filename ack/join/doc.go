// Package join contains the requests of nodes to join a cluster, as part of the replicated state, and the
// decisions of the leader about them.
//
// A leader with manual approval adds a server to the cluster only after an operator has approved its request.
// The stages of each request are log entries, so the next leader continues where the previous one has
// stopped.
//
//	              approve                caught up                 in the map
//	requested ───────────────► accepted ───────────► synchronized ───────────► active
//	    │  │                      ▲
//	    │  └─ refuse ► refused ───┘ approve
//	    └─ timeout ──► expired ───► requested, when the process has restarted
//
// # Types
//
//   - Records is the replicated part: one Record for each server (node ID and disk) that has requested to join,
//     or that has joined. It is immutable. Package ack applies Changes to it.
//   - Approval is the part of the leader, for one term. It returns the Changes that the caller must append to the
//     log, and never changes Records itself.
//
// # Invariants
//
//   - A server is admitted only by a Change of the kind Accept or Import. A different disk of the same node is a
//     different server.
//   - At most one server of a node is admitted, and at most one other server of the node has a record.
//   - The number of open requests is at most MaxOpen, and the number of all records is bounded.
//   - An admitted server stays admitted until an operator removes its node, or until the cluster accepts another
//     disk of the node. A restart or a return needs no approval.
//
// The package is pure: it has no clock, lock, goroutine or I/O. node/membership runs the Approval.
package join
