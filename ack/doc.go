// Package ack implements the lease and ownership protocol of Shardway. It is named after the
// acknowledgement by which a node confirms that it has applied a shard map and has stopped
// serving the shards that the map takes from it. The nodes agree on the map through Raft. The
// leader grants leases, and a node serves its shards only while it holds one.
//
// This package contains what both sides of the protocol share: the replicated state, the log
// entries and the messages. It is pure: no goroutine, clock, lock or I/O. Package node runs the
// machines of its sub-packages over Raft and TCP. The example of this package shows the whole loop
// on a small scale.
//
// docs/internals/protocol.md defines the terms, the guarantees and the rules, and explains what
// breaks without each rule. Comments refer to them as "G1", "rule N" and "reason N".
//
// # Types
//
//   - State is the replicated state. It is immutable: Apply takes one log entry and returns the
//     next State. Apply alone decides which proposal counts and which commit is void, so a
//     leader that acts on outdated knowledge can do no harm.
//   - ProposalEntry, CommitEntry and the other types that end in Entry are the log entries.
//   - Routing is derived from a State: for each shard, it says whether requests run here, are
//     forwarded or wait, and why. The agent of a node publishes a Routing whenever it changes.
//   - Heartbeat, Answer and Releases are the messages between an agent and the leader.
//   - Timing contains the durations on which the guarantees depend, and Policy the requests of
//     operators about the maps.
//
// Three sub-packages contain the machines:
//
//   - ack/leader is the side of the leader: it runs map changes (rounds) and grants leases, for
//     one term of one Raft leader.
//   - ack/agent is the side of a node: its lease, the drain of moving shards, the hooks of its
//     app. Every node runs an agent.Agent, the leader's node included.
//   - ack/election decides when a voter campaigns because its leader does not answer.
//
// A caller runs one State, one leader.Driver while its server leads, and one agent.Agent with an
// election.Suspicion for the lifetime of its process. The other types are parts of these.
//
//	             HeartbeatReceived, Tick, StateApplied …        heartbeats, answers
//	leader.Leader  ──►  Step(now, Message) []Effect        ◄──►  agent.Agent
//	                       │
//	                       └► Submit ► Raft log ► State.Apply ► StateApplied ► both
//
// The doc comments of packages ack/leader and ack/agent describe the two loops.
//
// # The log
//
// A node applies each entry once, in log order, to the State before it, and publishes the result
// for its loops. Any number of goroutines may read a State. A snapshot is State.MarshalBinary,
// and DecodeState restores it. The state that the loops read never goes back: when a log is
// replayed in the same process, the newest state remains until the log has passed it.
//
// After an entry that Apply rejects with an error, the node stops. It publishes no further state
// and makes no snapshot, because the snapshot would include that entry. An entry that Apply
// ignores is no error: it came too late, and every node ignores it.
//
// # Duties of the caller
//
// No machine can check these duties, and the guarantees depend on them. Packages ack/leader and
// ack/agent list further duties of their callers.
//
// Goroutines: one goroutine for each machine, because none has a lock. No machine may be called
// from a function that it has called, so callbacks must only store their arguments.
//
// Clock: now is the time since an arbitrary origin, on a clock that never runs backwards and
// counts the time during which the machine was suspended. Times of two nodes are never compared.
// The only assumption is that the rates of any two clocks differ by less than 10 %. The clock is
// read before the call that gets the time: a lease counts from the now of the Poll that sent the
// heartbeat, and a later reading would make it too long. The Gate uses the clock of its agent,
// and the times of leader.CrashEvidence use that of the leader.Driver. They may be the same clock.
//
// Messages: they may be lost, late, repeated or out of order. They must not be forged, because the
// machines believe what a heartbeat says about its sender and what a response says about the
// leader. The transport must therefore authenticate the sender.
//
// # Errors and limits
//
// ErrCorrupt reports an entry, a snapshot or a message that no program of the format versions from
// MinFormatVersion to MaxFormatVersion wrote. For another format version it is a
// FormatVersionError. The caller drops such a message with its connection, and stops the node at
// such an entry or snapshot. Entries and snapshots are encoded at the format version of the applied
// state, and a response at the format version of its heartbeat.
//
// ErrNoBackup refuses a file. No external input makes a machine panic.
//
// A heartbeat or a response has at most MaxMessage bytes. A node id has 1 to shardmap.MaxID bytes.
// Its server id begins with the node id and a slash, and has at most 128 bytes. A weight is 1 to
// shardmap.MaxWeight. MarshalBinary does not check these limits; the receiver does. A map has at
// most shardmap.MaxMembers members, a cluster at most MaxShards shards, and a Timing is limited
// by MaxLease and MaxDeadAfter. The caller checks the conditions between the parts of a Timing,
// and between a Timing and a Pace.
//
// # Outside this package
//
// The package does not
//
//   - elect leaders or change Raft configurations;
//   - find or dial nodes. It only carries addresses for status output;
//   - authenticate nodes, or tolerate nodes that lie;
//   - hash keys, or hold, forward and retry requests: a Routing only says which of these is due;
//   - end running requests: the agent asks its Gate for that. Only the ownership epoch can fence
//     what an app continues to do afterwards;
//   - write to disk. A lease is never stored: a new process begins without one.
//
// # Tests
//
// The tests of this package also run the sub-packages. testdata contains protocol dialogues line by
// line (go test ./ack -run Dialogues; -update
// rewrites them). The simulation runs the machines as package node does, over a model of Raft,
// clocks, disks, networks and requests, and checks the guarantees with global knowledge:
//
//	go test ./ack -run '^TestSimulation$' -v -sim.schedules=100000
//	go test ./ack -run '^TestSimulation$' -v -sim.mix=MIX -sim.seed=N  (one schedule, with its trace)
//	go test ./ack -run '^$' -fuzz FuzzAnyOrder
//
// TestEveryMutantIsCaught plants the bugs that the rules prevent, and those that the
// simulation has found, and checks that the simulation finds each of them.
package ack
