package peer

import "context"

// Record is what a side says of its disk beside its boot. The package only
// carries it; zero: nothing is said.
type Record struct {
	// Nonce tells processes of one boot apart.
	Nonce uint64
	// Term is the side's Raft term, Last the last index in its log, Applied the
	// committed epoch that it has applied.
	Term, Last, Applied uint64
}

// Past is what this node says of its disk, and what it knows of those of others.
// Its methods may be called from any goroutine.
type Past interface {
	// Own returns what this node says of itself now.
	Own() Record
	// Known returns what is known of a node's disk, zero if nothing.
	Known(node, disk string) (boot uint64, r Record)
	// Meet judges the process at the other end, and what that one knows of this
	// node's disk, before the stream is used. Zero: it has nothing against them;
	// else the stream is refused with that and the reason.
	Meet(ctx context.Context, m Meeting) (why Refusal, reason string)
}

// Meeting is a preface that is right in everything else.
type Meeting struct {
	Kind Kind
	// Far is the other side. Dialled is true if this node dialled it where the
	// directory shows it.
	Far     Identity
	Dialled bool
	// ToldBoot and Told are what the other side, if it dialled, knows of this
	// node's disk.
	ToldBoot uint64
	Told     Record
}

// stranger is the Past of a node that says nothing and believes everybody.
type trustingPast struct{}

func (trustingPast) Own() Record                                     { return Record{} }
func (trustingPast) Known(string, string) (uint64, Record)           { return 0, Record{} }
func (trustingPast) Meet(context.Context, Meeting) (Refusal, string) { return 0, "" }
