// Package node composes one Shardway process: gossip, Raft, the heartbeats, the
// machines of package ack, and the proxy on top of them.
//
//	gossip ──► directory ──► peer.Port ──► raft ──► fsm ──► agent ──► router ──► proxy
//	                            │                     │       ▲ │
//	                            └── heartbeats ──► leading ───┘ └──► link ──► leader
//
// One goroutine each owns what changes: the agent owns Holder and Follower and
// alone swaps the routing table; leading owns the ack.Leader for one Raft term, and
// others reach it by a leadership.
// The request path reads three atomics of the router and takes no lock.
//
// New checks and builds, Run starts everything, and stops it in the opposite
// order. Its context's end means SIGTERM: the node hands its shards over first.
//
// Whole clusters in virtual time are in the tests: world_test.go starts them,
// storm_test.go does something bad to one under load again and again
// (storm_strikes_test.go: what; storm_apps_test.go: apps and clients), and
// storm_witness_test.go tells the judge of e2e/kit/history what happened. They stand
// here for what only tests may do to a node, export_test.go. A hundred nodes with the
// machines alone: ack/scale. Real processes: e2e, e2e/chaos.
package node
