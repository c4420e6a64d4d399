//go:build linux

package register

import "shardway/e2e/history"

// Outcome is what the client of an operation knows about it.
type Outcome int

// The outcomes.
const (
	// Known: it was done between its call and its return.
	Known Outcome = iota + 1
	// Unknown: a write without an answer. It took effect at any time after its
	// call, or will, or never does. An unknown read tells nothing.
	Unknown
	// Refused: it was certainly not done, and never will be.
	Refused
)

// Op is one operation on the register of a key.
type Op struct {
	Key   string
	Write bool
	// Value is what was written, or what a known read returned. Writes are
	// unique and not empty; empty is what a register holds before its first.
	Value string
	// Call and Return are readings of history.Now at the client.
	Call, Return int64
	Outcome      Outcome
	// ID and Runs say in a counterexample who did it, nothing else.
	ID   string
	Runs []history.Run
}

// Ops makes operations of the answers to requests with App-Register. A write that
// ran in no app was never done and is left out, as are reads without an answer.
func Ops(_ []history.Answer, _ []history.Run) []Op { return nil }
