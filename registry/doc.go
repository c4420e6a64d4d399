// Package registry implements the replicated registry of a cluster: locks, a small key-value store and the worker
// IDs of the nodes. It is pure: no goroutine, clock, lock or I/O.
//
// # Types
//
//   - State is the replicated state. Apply changes it by one log entry.
//   - Command is a log entry. Encode and DecodeCommand convert it. Validate checks its limits.
//   - Result is the outcome of a command, for the caller of the leader.
//   - Deadlines computes the commands that expire locks and waiters. Only the leader uses it.
//
// Package node applies the entries to one State in the goroutine of Raft, and guards it with a lock. The State
// changes in place, because a copy of 16 MiB for each entry would cost too much.
//
// # Locks
//
// A lock is held by a holder until the holder releases it or its time to live (TTL) has passed. Its token is the
// index of the log entry that granted it. Tokens of a lock therefore only increase, also after a restore and a
// recovery, which continue the log at a higher index. An app passes the token to the store that it writes to, and
// the store refuses a lower token than the highest one so far.
//
// Waiters get the lock in the order of their entries. Holder and TTL are part of the entry, so the order is the
// same after a change of the leader.
//
//	free ──acquire──► held ──release, expire──► free, or held by the first waiter
//	                  │  ▲
//	                  └──┘ renew, acquire by the same holder
//
// State has no clock. The leader measures the TTL, and submits an expire command for the lock. The command names the
// renewal that the leader has seen, so a renewal in between wins.
//
// # Errors and limits
//
// A FieldError reports a field of a command that is out of bounds, with its value and its limit. ErrCorrupt reports
// an entry or a snapshot that no program wrote; the node must stop. A command that exceeds the limits of the whole
// registry is applied without effect: its Result has the outcome Full and names the limit.
package registry
