package history

import (
	"fmt"
	"slices"
)

// Kind says which promise a Violation breaks.
type Kind int

// The kinds of violations.
const (
	// Lost: a request without an answer.
	Lost Kind = iota + 1
	// Failed: an answer that is an error and that no rule excuses.
	Failed
	// CutAnswer: an answer whose body ended early.
	CutAnswer
	// SecondAnswer: bytes after an answer that nobody had asked for, or two
	// answers under one id.
	SecondAnswer
	// WrongAnswer: the answer to another request, or by an app that never ran it.
	WrongAnswer
	// NoRun: an answer of the app without a run in an app.
	NoRun
	// DoubleRun: an unsafe request that ran more than once.
	DoubleRun
	// UnknownRun: a run of a request that no client sent.
	UnknownRun
	// TwoOwners: a shard ran on two nodes at overlapping times.
	TwoOwners
	// SharedEpoch: one ownership epoch of a shard at two nodes.
	SharedEpoch
	// StaleEpoch: a run began under an older ownership epoch than one before it.
	StaleEpoch
	// BadHeader: a run whose Shardway headers are missing or contradict the key,
	// the method or the node.
	BadHeader
	// DeniedRun: an unsafe request that was answered 503, and ran.
	DeniedRun
	// FailedLate: a failure that a fault would have excused, had that not been over
	// for too long.
	FailedLate
	// Dropped: a request that a live process closed a kept connection under. Its
	// client sent it again, and was answered.
	Dropped
	// Unlistened: nobody listened at a node that was to run.
	Unlistened
	// FalseDrop: a node without a fault was left out of a map.
	FalseDrop
	// Unplanned: a map gives a node what operators had asked it not to have.
	Unplanned
	// Restless: shards moved from or to a node that restarts in place, within its grace.
	Restless
	// RepeatedEvent: an event came to a client that had it, or a later one.
	RepeatedEvent
	// MissingEvent: one came, and the one before it had not.
	MissingEvent
	// WrongEvent: one says what another one has to say.
	WrongEvent
	// CutStream: an event stream that had to go on was cut, or ended.
	CutStream
)

var kinds = [...]string{
	Lost: "lost", Failed: "failed", CutAnswer: "cut answer", SecondAnswer: "second answer",
	WrongAnswer: "wrong answer", NoRun: "answer without a run", DoubleRun: "double run",
	UnknownRun: "run of an unknown request", TwoOwners: "two owners", SharedEpoch: "epoch at two nodes",
	StaleEpoch: "stale epoch", BadHeader: "bad header", DeniedRun: "run after a 503", FailedLate: "failed too late",
	Dropped: "dropped on a kept connection", Unlistened: "nobody listened", FalseDrop: "false drop",
	Unplanned: "against the plan", Restless: "moved within its grace",
	RepeatedEvent: "event again", MissingEvent: "event missing", WrongEvent: "wrong event", CutStream: "cut stream",
}

// String names the kind.
func (k Kind) String() string {
	if k < 1 || int(k) >= len(kinds) {
		return fmt.Sprintf("Kind(%d)", int(k))
	}
	return kinds[k]
}

// Unsafe is in what judges say when a promise of safety is broken (Lamport, 1977): one
// that holds however late things happen, or if they never do.
const Unsafe = "a promise of safety is broken"

// Safety reports whether a promise is one of safety. The others, such as an answer
// within its time, need a machine that is there.
func (k Kind) Safety() bool {
	switch k {
	case Lost, Failed, FailedLate, Dropped, Unlistened, FalseDrop, Unplanned, Restless, CutStream:
		return false
	case CutAnswer, SecondAnswer, WrongAnswer, NoRun, DoubleRun, UnknownRun, TwoOwners, SharedEpoch, StaleEpoch, BadHeader, DeniedRun,
		RepeatedEvent, MissingEvent, WrongEvent:
	}
	return true
}

// Safety reports the same of a kind by its name. What has no such name counts as safety.
func Safety(name string) bool {
	k := slices.Index(kinds[:], name)
	return k < 1 || Kind(k).Safety()
}

// Violation is one broken promise.
type Violation struct {
	Kind Kind
	Text string
}

// String is the violation in one line.
func (v Violation) String() string { return v.Kind.String() + ": " + v.Text }
