// Package muxpool contains the multiplexed streams between this node and the other nodes.
//
// A Pool has two sides: the sessions that this node opens (Outgoing), and those that other nodes open, which
// Handler serves. A node has one pool for requests and one for resumable WebSockets, so long-lived streams use no
// capacity of short requests.
//
// # Concurrency
//
// All methods are safe for concurrent use. The peer port calls the handler in a goroutine for each
// session, and the handler calls its function in a goroutine for each stream.
//
// # Invariants
//
//   - Streams, sessions and buffer space are limited for each node, for each origin of addresses, and for
//     all nodes together. Without a cluster secret, a node can claim any name, so the limit for each node
//     is not sufficient.
//   - A stopping node sends GOAWAY before it ends its streams, so that peers retry rejected streams
//     elsewhere.
package muxpool
