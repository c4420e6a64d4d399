package peer

import "context"

// Record is what a node reports about its disk, in addition to its boot. This package only carries
// it. The zero value means that nothing is reported.
type Record struct {
	// Nonce distinguishes processes with the same boot.
	Nonce uint64
	// Term is the Raft term of the node, Last the last index in its log, and Applied the committed
	// epoch that it has applied.
	Term, Last, Applied uint64
}

// Past exchanges what this node has recorded about its own disk and the disks of others, to detect
// copies and old images of disks. Its methods may be called from any goroutine.
type Past interface {
	// Own returns the current record of this node.
	Own() Record
	// Known returns what is recorded about the disk of a node, zero if nothing is.
	Known(node, disk string) (boot uint64, r Record)
	// Meet checks the process at the other end, and what that process has recorded about the disk
	// of this node, before the stream is used. Zero accepts it. Otherwise the stream is refused
	// with why and reason.
	Meet(ctx context.Context, m Meeting) (why Refusal, reason string)
}

// Meeting is a handshake that has passed all other checks.
type Meeting struct {
	Kind Kind
	// Far is the other side. Dialled is true if this node dialed it, at the address that Lookup
	// returned.
	Far     Identity
	Dialled bool
	// ToldBoot and Told are what the dialer has recorded about the disk of this node. They are set
	// only if the other side dialed.
	ToldBoot uint64
	Told     Record
}

// trustingPast is the Past of a node that reports nothing and accepts every process.
type trustingPast struct{}

func (trustingPast) Own() Record                                     { return Record{} }
func (trustingPast) Known(string, string) (uint64, Record)           { return 0, Record{} }
func (trustingPast) Meet(context.Context, Meeting) (Refusal, string) { return 0, "" }
