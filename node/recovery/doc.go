// Package recovery recovers a cluster that has lost its quorum, from the data directory of one surviving
// node or from a backup. The node of the data directory must not be running.
//
// In both cases, the result is a data directory with a new cluster of one node:
//
//   - The log starts with a snapshot of the remaining state. The index of the snapshot, the floor, is higher
//     than any index that a lost node can have reached (see ack.State.Recovered). As a result, all
//     new epochs are higher than all epochs of the old cluster, and fence them.
//   - The floor is the current time in milliseconds since 1970. It orders independent recoveries of one
//     cluster, such as two restores of one backup. No log can reach it, because no log grows by a thousand
//     entries per second for years. If the clock is wrong, the floor is ack.MinIndexGap above the last known
//     entry. The operator can require a higher one.
//   - The cluster ID is new (see package clusterid), so gossip and the peer port refuse the remaining nodes of
//     the old cluster, and these nodes stop when they meet the new cluster. They can join the new cluster
//     with empty data directories.
//   - The disk ID is new, because the votes of the old disk are lost.
//
// A survivor may lack the last maps that the lost majority has committed. Shards may then have different owners
// than before, but consistency is not at risk, because all owners serve with new epochs.
package recovery
