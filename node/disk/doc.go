// Package disk is the data directory of a node. It contains the identity of the node, its
// boot number, its cluster, and the Raft stores.
//
//	lock           flock of the running process; contains its pid
//	identity.json  format, node id, disk id; written once, and by BootstrapCluster
//	boot.json      incremented and synced by each Open, after the lock is held
//	cluster.json   cluster id and number of shards, once known
//	level.json     highest level that was in force, if above the first
//	raft.json      marks that the Raft log was created
//	gossip         Serf's snapshot of known members
//	raft/          log, term, vote and snapshots
//	bootstrap.json marks an interrupted BootstrapCluster
//	before-N/      files that BootstrapCluster replaced
//	superseded.json  marks that the cluster continues elsewhere without this directory
//	known.json     values that the disks of other nodes have reported, for up to
//	               1024 disks; an unusable file is renamed to damaged-known.json
//	app.json       app instance that the node saw last
//	allowance.json for how long the app may write without contact to the node
//	stale.json     marks an older image of the node's disk, or a copy
//
// Main types: Dir is an open data directory. Stores are its Raft stores, protected by a
// guard that keeps errors away from Raft. Memory is a data directory without files, for
// tests in simulated time. It survives a simulated crash and can be opened again with the
// next boot number.
//
// Invariants:
//
//   - A boot number is never reused. It is on disk before Open returns, and only the
//     holder of the lock writes it.
//   - The disk id is random and created with the directory. A node whose directory was wiped
//     therefore cannot pass for the node that took part in the cluster.
//
// A Dir is used by one node. Its methods are safe for concurrent use.
package disk
