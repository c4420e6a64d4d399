// Package leaderloop does what only the leader of a cluster does: it decides which node owns which shard.
//
// A Loop runs the state machine leader.Driver for one Raft term, in one goroutine. It receives the
// heartbeats of all nodes, answers them with leases, and submits log entries with new shard maps. A Leadership
// is the access of all other goroutines to the same term: they send it requests of operators and of other
// nodes.
//
//	heartbeats, requests ──► Leadership ──channels──► Loop ──► leader.Driver
//	                                                   │ effects
//	                                                   └──► Raft, other nodes, events, metrics
//
// # Concurrency
//
// The node calls Loop.Run in one goroutine, for one term at a time. Only that goroutine uses the
// leader.Driver. The methods of Leadership are safe for concurrent use. They return control.ErrNotLeader
// after the term has ended. Calls that wait for Raft or for other nodes run in goroutines of
// Options.Background.
//
// # Invariants
//
//   - Only log entries change the replicated state.
//   - One policy change is checked and submitted at a time. Two concurrent drains could each leave enough
//     voters, but too few together.
//   - An error api.ErrRefused means that a change was certainly not made. api.ErrUnknown means that the change
//     may still be made.
package leaderloop
