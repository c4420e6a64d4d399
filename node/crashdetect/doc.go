// Package crashdetect detects that processes of other nodes have exited or are unreachable, before leases or TCP
// connections time out.
//
// # Types
//
//   - Detector dials a node again when its heartbeat connection has closed. A refused dial shows
//     that the process has exited. The leader, or a voter whose leader it was, uses that as
//     evidence.
//   - PoisonDetector finds keys whose requests may crash processes: keys that had requests at two
//     nodes when those exited.
//   - UnreachableOwners finds the nodes that this node cannot reach, for the heartbeats to the leader, and
//     aborts forwarded requests to them.
//
// # Concurrency
//
// Start and Wait bound the background goroutines of Detector and PoisonDetector: their work ends with the
// context of Start. All other methods are safe for concurrent use and do not block, unless their comment
// says otherwise.
//
// # Invariants
//
//   - Only a refused dial is evidence that a process has exited. A process that does not respond
//     may still have a lease, and the leases decide.
//   - Evidence counts from the start of the dial, because the dial shows nothing about earlier times.
package crashdetect
