// Package cluster contains a node's view of its cluster: the nodes that are present, those with a Raft server, the
// leader, and the addresses of all nodes.
//
// A View combines three sources: the members of gossip, the configuration of Raft, and the replicated state. The
// sources may disagree for a short time. Each method documents which source it uses.
//
// # Concurrency
//
// All methods are safe for concurrent use. One goroutine of the node calls Update when gossip has changed, and
// RecordServers at intervals.
//
// # Invariants
//
//   - The address of a node with a server in Raft stays in the directory when gossip forgets the node, because
//     Raft must reach a voter however long it was absent.
//   - IsServer and IsNodeAddress read only what was recorded, so gossip may call them with its lock held.
package cluster
