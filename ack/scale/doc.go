// Package scale plays a large cluster in virtual time: the real machines of
// package ack, a hundred nodes and sixteen thousand shards, over a modelled Raft
// log, disk and network. It shows how long a death takes until all nodes have
// applied the map without the dead, what the entries weigh, and what the leader
// computes.
//
// What is real: every Step, Apply, Assign, encoding and decoding. How long the
// leader's loop and the applying of entries take is measured while they run, and
// counts as virtual time: a leader that could not keep up would show.
//
// What is modelled: one-way latency, the leader's uplink (entries leave one after
// the other), the fsync of an entry at each server, one append at a time to each
// follower (as MaxRPCsInFlight 1 has it), commit by a quorum of the voters, and
// that followers apply with the next append. A crash shows itself after 2 ms, an
// election among voters that have the evidence takes 25 ms. Requests are not
// played: nothing is drained.
//
//	go test -v -run Scale ./ack/scale
package scale
