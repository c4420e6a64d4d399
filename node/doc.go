// Package node composes one Shardway process: gossip, Raft, the heartbeats, the
// machines of package ack, and the proxy on top of them.
//
//	gossip ──► directory ──► peer.Port ──► raft ──► fsm ──► agent ──► router ──► proxy
//	                            │                     │       ▲ │
//	                            └── heartbeats ──► leading ───┘ └──► link ──► leader
//
// The agent goroutine owns the leases and the hooks of this node, and is the only one that replaces the
// routing table. The leader loop owns the ack.Leader for one Raft term. Other goroutines send requests to
// the leader loop through a leadership. The request path reads three atomics of the router and takes no lock.
//
// These sub-packages do a part of the work without a Node:
//
//   - apphealth: health checks of the app
//   - control: requests between nodes; handlers in requests.go lists all of them
//   - crashdetect: ended processes, poison requests, unreachable owners
//   - eventlog: events of nodes, leaders and map changes
//   - heartbeat: heartbeats to the leader and its responses
//   - membership, diskhistory, clusterid: members, rolled-back disks, cluster IDs
//   - muxpool: multiplexed streams to and from other nodes
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
