// Package roster says who belongs to a cluster.
//
//	Founder  which of several fresh nodes founds it, once, whatever the order of
//	         their starts; asked by others for its promise
//	Keeper   Raft's configuration while this node leads: who is added, votes, gives
//	         its place to another disk, and is taken out when dead
//	Twin     another process under this node's id, until a leader has answered
//	View     what the decisions of a Keeper are made from, and whether a node that
//	         stops may leave
//
// Gossip only gives hints: it can be replayed. What it says of a server is acted upon
// once the node has said so itself, and nothing of it takes out a server whose own
// heartbeats come. The rules are those of docs/internals/protocol-membership.md, "Membership".
//
// Run of each owns its goroutine; the other methods may be called from any.
package roster
