// Package history records what clients and apps observed of a cluster, and checks the
// record against the guarantees of Shardway.
//
// It is the only checker of cluster histories. Nodes may be processes, or may run in
// virtual time inside one test process. Every process of a test machine stamps its
// observations with Now, which is one clock for all of them. In virtual time the clock of
// the test is used. An app writes a Run for each request that reaches it. A client
// records a Response for each request that it sends. A test records a Fault for each
// fault that it injects, and a Map for each committed shard map that it observes. Check
// compares these records:
//
//   - Each request has exactly one response, which belongs to that request. A client
//     repeats it only for a permitted reason. It fails only while a fault excuses it.
//   - No unsafe request ran twice, or after it was rejected. No app response exists
//     without a run.
//   - No shard ran on two nodes at overlapping times. An ownership epoch belongs to one
//     node, and the epochs along the runs of a shard never decrease.
//   - No shard map excludes a node without a fault of that node. A node that only the leader
//     reaches is excluded in time.
//   - The failure of one app instance of a node moves only its own shards, to its siblings.
//
// Each guarantee has its checker: ownershipChecker, exclusionChecker, placementChecker,
// instanceChecker, responseChecker, streamChecker and runChecker. They share lookup tables, which Check fills
// first: runIndex, mapTimeline, faultTimeline, shardOwners and majority.
//
// An excuse is the reason why the checker accepts a failure or an overlap instead of reporting it.
// Every excuse has a bound, and each is defined in one place. response_checker.go has the
// excuses for connection attempts, failure.go those for failed requests, exclusion.go those
// for excluded nodes. excuse.go has the overlaps that are outside the guarantee, and counts
// them separately. There are two causes. An app continues while its node is paused or
// dead. A refusal between nodes was forged, which only --takeover timeout ignores. The
// run of the old owner must then overlap the Fault, and the takeover must not be earlier
// than the rules permit. An app may reject such a request when its store reports an
// outdated epoch.
//
// Check is a pure function. Its tests plant bad histories, and Check must reject each of
// them.
package history
