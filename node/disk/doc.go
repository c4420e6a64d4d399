// Package disk is a node's data directory: who the node is, which boot this is,
// which cluster it belongs to, and the stores under Raft.
//
//	lock           flock of the running process, its pid inside
//	identity.json  format, node id, disk id; written once, and by Found
//	boot.json      raised and synced by each Open, after the lock is held
//	cluster.json   cluster id and shard count, once known
//	level.json     the highest level that was in force, once above the first
//	raft.json      that the Raft log was made
//	gossip         Serf's snapshot of the members it saw
//	raft/          log, term, vote and snapshots
//	founding.json  that Found was interrupted
//	before-N/      what Found replaced
//	superseded.json  that the cluster goes on elsewhere without this directory
//	known.json     what other nodes' disks have said of themselves, at most 1024;
//	               as damaged-known.json what could not be used of it
//	app.json       the app instance that the node saw last
//	allowance.json for how long the app may write without hearing from the node
//	stale.json     that this is an older image of the node's disk, or a copy
//
// Two rules hold. A boot number is never used twice, because it is on disk
// before Open returns and only the holder of the lock writes it. And the disk
// id is random and made with the directory, so that a wiped directory never
// passes for the one that took part in the cluster.
//
// Memory is the same without files, for tests in simulated time: it outlives a
// simulated crash and is opened again with the next boot.
//
// A Dir is used by one node; its methods may be called from any goroutine.
package disk
