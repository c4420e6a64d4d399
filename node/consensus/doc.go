// Package consensus runs the Raft library with the settings and fixes that Shardway needs.
//
// # Types
//
//   - Raft is the Raft server of this node. Open restores its state and starts it, Shutdown stops it.
//   - Stream owns the connections between servers. NewStream must be called before the peer port
//     serves.
//   - FSM is the replicated state, which the caller implements.
//   - Server is a member of the configuration. Its ID, which is also its address, is "node/disk":
//     Stream finds the node by its ID and requests this disk, so a node whose data directory was
//     deleted is another server and cannot vote in place of the previous one.
//
// # Concurrency
//
// All methods of Raft are safe for concurrent use. The Raft library calls the FSM from one goroutine at a
// time, even during Open. Shutdown ends all goroutines; the caller closes the stores afterwards.
//
// # Invariants
//
//   - Leadership is a state, not an event: Changed only signals that it may have changed, Leadership
//     and Term return it. Leases depend only on the current term of Raft. Being the leader permits nothing by itself.
//   - The Raft library never sees a store error, because it would panic. Package disk withholds errors, Failed reports the first one, and the node must then stop.
//   - While a write of the leader is stalled, Stream is isolated, so that the other servers elect
//     another leader.
//
// # Corrections of the Raft library
//
// The Raft library has bugs that can stop a cluster permanently. Each fix has a file:
//
//   - votes for a server that was just promoted: election_fixes.go
//   - a vote that is written in two steps: votes.go of package disk
//   - a log that contradicts an installed snapshot: install.go
//   - leadership transfer: transfer.go
//   - servers that return after a while, and broken idle connections: transport.go
//   - the first response of a new voter: membership.go
//   - a term that decreases: term_store.go
//   - requests without a response at shutdown: shutdown_response.go
//   - a sender that impersonates another server: inbound.go
package consensus
