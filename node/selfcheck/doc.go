// Package selfcheck compares what a node observes of its cluster, and reports observations that contradict each
// other. The lease protocol excludes them, so each one means that a guarantee is broken:
//
//   - two leaders in one term
//   - two owners of a shard: under one ownership epoch, or in two maps of one epoch
//   - a lease that ends later than the leader has granted it
//   - a shard whose owner is not a member of the cluster, although another member can own the shard
//   - a leader that is not a voter of the cluster
//
// A Checker receives observations of this node, and a Statement of other nodes. A contradiction is reported for
// ShownFor. The last two conditions can be true for a moment while a node is removed, so they must last for
// some time.
//
// The package has no clock and no goroutine. One goroutine uses a Checker.
package selfcheck
