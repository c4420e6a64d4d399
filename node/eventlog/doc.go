// Package eventlog records events of the cluster, for operators and for the log.
//
// # Types
//
//   - MapChangeRecorder records each change of the shard map, with the durations of its phases.
//   - NodeWatcher records that nodes join, leave, fail, restart, drain, or change their vote.
//   - LeaderTracker records changes of the leader.
//   - JoinRecorder records the steps with which this process joined its cluster.
//   - ShardMoves keeps the most recent moves of shards between nodes.
//
// The first four write to the event.Ring of the node, which the admin API serves. The functions in
// events.go make the events that need no state.
//
// # Concurrency
//
// The methods of MapChangeRecorder, LeaderTracker, JoinRecorder and ShardMoves may be called from any goroutine. One
// goroutine uses a NodeWatcher. No method blocks, because the agent and the FSM call some of them.
//
// # Invariants
//
//   - A restarted node applies its log again. It records the resulting map, not the changes in the log.
//   - An observer that misses intermediate states records the difference once.
package eventlog
