// Package node implements one Shardway process. A Node connects gossip, Raft, the heartbeats, the state
// machines of package ack and the proxy.
//
//	gossip ──► directory ──► peer.Port ──► raft ──► fsm ──► agent ──► router ──► proxy
//	                            │                     │       ▲ │
//	                            └── heartbeats ──► leader ────┘ └──► link ──► leader
//
// The agent goroutine owns the leases and the hooks of this node, and is the only one that replaces the
// routing table. The leader loop owns the leader.Leader for one Raft term. Other goroutines send requests to
// the leader loop through a leaderloop.Leadership. The request path reads three atomics of the router and takes no lock.
//
// These types of this package are parts of a Node. Each owns its state and does not refer to the Node:
//
//   - fsm: the replicated state
//   - agent: this node's side of the lease protocol
//   - leaderRunner: the leader loop in each term that this node leads
//   - leaderInbox: messages to the leader loop
//   - announcer: the announcement of this node by gossip
//   - failures: the errors that must stop the node
//   - leaderRequests, membershipRequests, localRequests: the handlers of control requests
//
// These sub-packages do a part of the work without a Node:
//
//   - adminapi: the services of the admin port
//   - apphealth, appinstance: health checks of the app, restarts and instances of the app
//   - cluster: the other nodes, as gossip, Raft and the log show them
//   - control: requests between nodes; handlers in requests.go lists all of them
//   - crashdetect: ended processes, poison requests, unreachable owners
//   - eventlog: events of nodes, leaders and map changes
//   - heartbeat: heartbeats to the leader and its responses
//   - keyhash: hashes of shard keys, quarantined keys
//   - leaderloop: what only the leader of the cluster does
//   - metrics: counters and histograms of a node
//   - membership, diskhistory, clusterid: members, rolled-back disks, cluster IDs
//   - muxpool: multiplexed streams to and from other nodes
//   - router: the routing table, the lease and the requests in flight
//
// New checks the options and builds a Node. Run starts everything, and stops everything in the opposite
// order. When the context of Run ends (usually because of SIGTERM), the node first hands its shards over.
//
// The tests run whole clusters in virtual time. They are in this package because they need the test access
// to a Node in export_test.go:
//
//   - world_test.go starts clusters.
//   - storm_test.go injects faults into a cluster under load. storm_strikes_test.go contains the faults,
//     and storm_apps_test.go the apps and clients.
//   - storm_witness_test.go records what happened, for the consistency check of e2e/kit/history.
//
// Other packages test a hundred nodes with the state machines alone (ack/scale), and real processes (e2e
// and e2e/chaos).
package node
