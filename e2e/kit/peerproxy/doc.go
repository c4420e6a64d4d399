//go:build linux

// Package peerproxy is a proxy in front of the peer port of a node.
//
// The peer port carries all traffic between nodes, so a packet filter cannot delay one
// kind of stream and pass another. A Proxy can, since the preface of each stream contains
// its kind. A node that advertises the address of its proxy is reached through the proxy,
// and does not notice it.
//
// HoldKinds delays all data to the node on streams of some kinds. HoldLog delays only
// Raft messages with log entries or a snapshot. Empty ones, the heartbeats of the leader,
// still pass. No data is lost: Release forwards all of it in order.
package peerproxy
