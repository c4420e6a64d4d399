// Package idleshards determines which shards of this node are idle, so that they can move to another node
// without interrupting requests.
//
// A planned map change moves shards in stages: first the idle shards, then the busy ones, whose requests may
// finish until drain-timeout. The leader asks each node which of its shards are idle.
//
// # Types
//
//   - Tracker answers the leader's questions.
//   - Holds contains the shards that the app has declared busy, with the Shardway-Hold header of a response.
//   - Stages records in which stage each shard moved, for a metric.
//
// All methods may be called from any goroutine, except those of Stages whose comments name the agent.
package idleshards
