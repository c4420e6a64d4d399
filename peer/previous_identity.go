package peer

import "context"

// Record is what a node reports about the state of its data directory ("disk"), in addition to its
// boot number. This package only transfers it. The zero value means that the node reports nothing.
type Record struct {
	// Nonce distinguishes processes with the same boot.
	Nonce uint64
	// Term is the Raft term of the node, Last the last index in its log, and Applied the committed
	// epoch that it has applied.
	Term, Last, Applied uint64
}

// Past exchanges records about the disks of this node and of other nodes, in order to detect copied
// or restored disks. All methods are safe for concurrent use.
type Past interface {
	// Own returns the current record of this node.
	Own() Record
	// Known returns what this node has recorded about the disk of a node. Zero values mean that
	// nothing is recorded.
	Known(node, disk string) (boot uint64, r Record)
	// Meet checks the other process, and what that process has recorded about the disk of this
	// node, before the stream is used. Zero means that the stream is accepted. Otherwise the stream
	// is refused with the code why and the text reason.
	Meet(ctx context.Context, m Meeting) (why Refusal, reason string)
}

// Meeting describes a handshake that has passed all other checks.
type Meeting struct {
	Kind Kind
	// Peer is the identity of the other side. Dialled means that this node has dialed it, at the
	// address that Lookup returned.
	Peer    Identity
	Dialled bool
	// PeerKnownBoot and PeerKnown are the boot number and the record that the dialer has stored for
	// the disk of this node. They are set only if the other side has dialed.
	PeerKnownBoot uint64
	PeerKnown     Record
}

// trustingPast is the Past of a node that reports nothing and accepts every process.
type trustingPast struct{}

func (trustingPast) Own() Record                                     { return Record{} }
func (trustingPast) Known(string, string) (uint64, Record)           { return 0, Record{} }
func (trustingPast) Meet(context.Context, Meeting) (Refusal, string) { return 0, "" }
