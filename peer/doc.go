// Package peer is the one port that nodes reach each other on.
//
// Raft, heartbeats, forwarded requests and control messages share it. Whoever
// dials says first, in a preface of a few dozen bytes, who he is, whom he
// wants and what the stream is for; the other side accepts and names itself,
// or refuses with a reason a person can act on. After that the bytes belong to
// the stream's kind, and this package neither reads ahead nor buffers:
//
//	dialer                                   port
//	  "SHWY" version length kind me you  ──►   right cluster? right node?
//	                                           right disk? known kind? room?
//	  "SHWY" version status length me    ◄──   accepted, or a reason and close
//	  ...bytes of the kind...           ◄─►    the kind's handler
//
// The rules that must hold:
//
//   - A stream reaches a handler only if both sides agree on cluster, node and,
//     where named, disk: addresses move between nodes and disks are wiped, so
//     an address proves nothing.
//   - Whoever does not finish the preface is closed after HandshakeTimeout. Each
//     address has places of its own for that, and strangers a bound together:
//     garbage never keeps a peer out, and one peer not another (handshake_limits.go).
//   - Serve returns after the last handler it started.
//
// New makes a Port, Handle (or Listener) registers the kinds, Serve accepts,
// Dial connects by node id. Serve and Dial may run on any goroutines. The
// package knows neither Serf nor Raft: where a node is to be found it asks
// Options.Lookup. TLS slips in beneath through Options.WrapServer and
// WrapClient.
package peer
