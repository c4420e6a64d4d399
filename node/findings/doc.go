// Package findings computes the findings of a node: the problems that an operator must know, each with a
// remedy. Package diagnosis contains the rules. This package collects their inputs.
//
//	gossip, Raft, map, app ──┐
//	reports of the leader ───┼──► inputs, smoothed ──► diagnosis.Of ──► Result ──► log, events, API
//	probes of other nodes ───┘
//
// # Types
//
//   - Monitor collects the inputs at intervals, computes the findings, and logs and records each change.
//   - Result is the result of one run. It also explains to clients why their requests are not served.
//   - LeaderReport contains the state that only the leader has. A follower queries it on a stream that
//     stays open.
//   - Reachability is the response to a node that asks whether its peer port is reachable.
//
// # Concurrency
//
// One goroutine calls Monitor.Run. All other methods may be called from any goroutine, and read only the
// last Result or use their own requests.
//
// # Invariants
//
//   - A short change raises no finding: each input must last before it counts.
//   - An input about an operator's request counts only while the log of this node is up to date.
package findings
