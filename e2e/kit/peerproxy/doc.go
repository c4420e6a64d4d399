//go:build linux

// Package relay stands between a node's peer port and the nodes that dial it.
//
// The peer port carries everything between nodes, so no packet filter can keep
// back one thing and let another through. A Relay can: each stream says in its
// preface what it is for. A node that advertises its relay's address in place of
// its own is reached through it, and does not notice.
//
// Hold keeps back what is said to the node on streams of some kinds, or only the
// Raft messages that carry log entries or a snapshot (the empty ones, which tell
// a follower that its leader lives, still pass). Nothing is lost: Release lets it
// all through, in order.
package peerproxy
