// Package crashdetect detects that processes of other nodes have ended or cannot be reached, sooner than the
// timeouts of leases and TCP.
//
// # Types
//
//   - Detector dials a node again when its heartbeat connection has closed. A refused dial shows that
//     the process has ended. The leader, or a voter whose leader it was, uses that as evidence.
//   - PoisonDetector finds keys whose requests may end processes: keys that had requests at two nodes
//     when these ended.
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
//   - Only a refused dial is evidence that a process has ended. A process that does not respond may have
//     a lease, and the leases decide about it.
//   - Evidence counts from the start of the dial, because the dial shows nothing about earlier times.
package crashdetect
