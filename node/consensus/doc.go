// Package consensus is Raft with the settings and the care that Shardway needs.
//
// Leadership is a level, not an event: Changed gives hints, Leadership and Term
// are the truth, and CurrentTerm of Raft is the only one of its answers that the
// leases may be built on. That this node leads permits it nothing by itself.
//
// A server's id is "node/disk", and so is its address: Stream finds the node by
// its id and asks it for that very disk, so a node whose directory was wiped is
// another server and cannot vote in the old one's place.
//
// Raft never sees an error of its stores (package disk keeps them back), because
// it would panic; Failed reports the first, and the node must stop. While a write
// of the leader hangs, Stream is cut off, so that the others elect another.
//
// The library has faults that stop a cluster for good, or nearly; they are mended
// around it: votes for a server just promoted (ballot.go), votes that are written in
// two (votes.go of package disk), the log that a snapshot
// contradicts (install.go), handing over leadership (transfer.go), servers that
// return after a while (transport.go), the first answer of a new voter
// (membership.go).
//
//	NewStream   before the peer port serves
//	Open        restores and starts Raft; Options.FSM is called from now on
//	Shutdown    ends every goroutine; the stores are closed by their owner
package consensus
