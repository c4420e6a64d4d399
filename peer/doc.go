// Package peer implements the port that nodes use among themselves.
//
// Raft, heartbeats, forwarded requests and control messages share the port. A dialer first sends a
// hello of a few dozen bytes: its identity, the wanted node, and the kind of the stream. The port
// accepts it and sends its own identity, or refuses it with a reason for an operator. After that,
// the bytes belong to the handler of the kind. This package neither reads ahead nor buffers:
//
//	dialer                                   port
//	  "SHWY" version length hello        ──►   same cluster? this node? this disk?
//	                                           known kind? room for a stream?
//	  "SHWY" version status length body  ◄──   accepted, or a reason and close
//	  ...bytes of the kind...            ◄─►   handler of the kind
//
// # Types
//
//   - Port is the end of one node. New creates it, Handle or Listener registers handlers for kinds,
//     Serve accepts streams, and Dial connects to a node by its id.
//   - Conn is an accepted or dialed stream.
//   - DiskRecords exchanges what nodes have recorded about each other's disks.
//
// Serve and Dial may be called from any goroutine. The package does not depend on Serf or Raft:
// Options.Lookup returns the address of a node. Options.WrapServer and WrapClient add TLS.
//
// # Invariants
//
//   - A stream reaches a handler only if both sides agree on the cluster, the node and, where it is
//     named, the disk. An address proves nothing, because addresses move between nodes and disks
//     are wiped.
//   - A connection that does not finish the handshake is closed after HandshakeTimeout. Each address
//     has its own limit of pending handshakes, and addresses that belong to no node share a limit.
//     Garbage never keeps a node out, and no node keeps out another (handshake_limits.go).
//   - Serve returns after the last handler that it started.
package peer
