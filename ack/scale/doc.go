// Package scale simulates a large cluster in virtual time: the real machines of package ack with a
// hundred nodes and 16,384 shards, over a model of the Raft log, disks and network. It measures how
// long it takes after a crash until all nodes have applied the map without the dead node, the size
// of the log entries, and the CPU time of the leader.
//
// Every Step, Apply, Assign, encoding and decoding is real. The durations of the leader loop and of
// applying entries are measured and count as virtual time, so a leader that cannot keep up shows.
//
// The model contains the one-way latency, the uplink of the leader (one entry at a time), the fsync
// of an entry at each server, one append at a time to each follower (MaxRPCsInFlight 1), and the
// commit by a quorum of the voters. Followers apply with the next append. A crash is detected after
// 2 ms, and an election among voters with crash evidence takes 25 ms. There are no requests, so
// nothing is drained.
//
//	go test -v -run Scale ./ack/scale
package scale
