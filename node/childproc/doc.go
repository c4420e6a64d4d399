// Package childproc runs one process of the app for each key or for each shard (--exec).
//
// A Supervisor owns the processes. It implements the hooks of a node, so a process lives within the ownership
// of its shard:
//
//   - acquire: the node may start processes of the shard. With PerShard, it starts the process immediately.
//   - release: the processes of the shard get SIGTERM, and SIGKILL later. The call returns when none is left; only then does the node acknowledge the release.
//   - lost: the processes of the shard get SIGKILL.
//
// Dial connects a request to the process of its key or shard. With PerKey, it starts the process if necessary.
// The processes themselves are children of a guard (package procguard), which ends them when the node ends, is
// frozen, or has been without a lease for too long.
//
// # States of a process
//
//	Starting ──ready──► Ready ──idle, release, lost──► Stopping ──no process left──► Ended
//	    │ release, lost, not ready in time                ▲
//	    └─────────────────────────────────────────────────┘
//	Starting and Ready also become Ended when the process exits on its own.
//
// A process in state Ended is no longer in the Supervisor's list. The next request starts a new one, after a pause
// that grows while processes of the same key keep failing.
//
// # Invariants
//
//   - At most one process of a key or shard exists, including its descendants.
//   - A process exists only for a shard that the node has acquired and not released.
//   - A process whose listener is not its own is never used: another program may have taken its port.
//
// All methods may be called from any goroutine.
package childproc
