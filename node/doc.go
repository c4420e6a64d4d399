// Package node composes one Shardway process: gossip, Raft, the heartbeats, the
// machines of package ack, and the proxy on top of them.
//
//	gossip ──► directory ──► peer.Port ──► raft ──► fsm ──► agent ──► router ──► proxy
//	                            │                     │       ▲ │
//	                            └── heartbeats ──► leading ───┘ └──► link ──► leader
//
// One goroutine each owns what changes: the agent owns Holder and Follower and
// alone swaps the routing table; leading owns the ack.Leader for one Raft term.
// The request path reads three atomics of the router and takes no lock.
//
// New checks and builds, Run starts everything, and stops it in the opposite
// order. Its context's end means SIGTERM: the node hands its shards over first.
package node
