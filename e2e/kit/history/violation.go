package history

import (
	"fmt"
	"slices"
)

// Kind is the guarantee that a Violation breaks.
type Kind int

// The kinds of violations.
const (
	// Lost means that a request has no response.
	Lost Kind = iota + 1
	// Failed means that a request without an excuse got an error response.
	Failed
	// TruncatedResponse means that the body of a response ended early.
	TruncatedResponse
	// SecondResponse means that bytes arrived after a response and belong to no request, or
	// that two responses have one ID.
	SecondResponse
	// WrongResponse means that the response belongs to another request, or comes from an app
	// that did not run this one.
	WrongResponse
	// NoRun means that a response of an app exists without a run in any app.
	NoRun
	// DoubleRun means that an unsafe request ran more than once.
	DoubleRun
	// UnknownRun means that an app ran a request that no client sent.
	UnknownRun
	// TwoOwners means that a shard ran on two nodes at overlapping times.
	TwoOwners
	// SharedEpoch means that two nodes ran a shard under one ownership epoch.
	SharedEpoch
	// StaleEpoch means that a run began under an older ownership epoch than a previous run.
	StaleEpoch
	// BadHeader means that the Shardway headers of a run are missing, or contradict the key,
	// the method or the node.
	BadHeader
	// WrongService means that an app ran a request of another service.
	WrongService
	// DeniedRun means that an unsafe request ran although its response was 503.
	DeniedRun
	// FailedLate means that a request failed too long after the fault that would excuse it.
	FailedLate
	// ClosedIdle means that a live process closed a reused connection while a request was being sent
	// on it. The client sent the request again and got a response.
	ClosedIdle
	// NotListening means that no process listened at a node that should have run.
	NotListening
	// FalseExclusion means that a map excludes a node that had no fault.
	FalseExclusion
	// MissedExclusion means that a node that only the leader reached was not excluded in time, or that it owned
	// shards again before the network was restored.
	MissedExclusion
	// PlacementIgnored means that a map contradicts a drain or a cordon.
	PlacementIgnored
	// MovedInGrace means that shards moved from or to a node that restarts in place, within its
	// grace period.
	MovedInGrace
	// MovedNeedlessly means that a shard moved although only another app instance had failed or was
	// drained, or that it left the node of its failed instance.
	MovedNeedlessly
	// RepeatedEvent means that a client received an event that it had received, or an older
	// one.
	RepeatedEvent
	// MissingEvent means that a client received an event without the one before it.
	MissingEvent
	// WrongEvent means that an event has the text of another event.
	WrongEvent
	// BrokenStream means that an event stream that had to continue was broken, or ended.
	BrokenStream
)

var kinds = [...]string{
	Lost: "lost", Failed: "failed", TruncatedResponse: "truncated response", SecondResponse: "second response",
	WrongResponse: "wrong response", NoRun: "response without a run", DoubleRun: "double run",
	UnknownRun: "run of an unknown request", TwoOwners: "two owners", SharedEpoch: "epoch at two nodes",
	StaleEpoch: "stale epoch", BadHeader: "bad header", WrongService: "wrong service", DeniedRun: "run after a 503", FailedLate: "failed too late",
	ClosedIdle: "idle connection closed under a request", NotListening: "no process listened", FalseExclusion: "false exclusion",
	MissedExclusion:  "missed exclusion",
	PlacementIgnored: "drain or cordon ignored", MovedInGrace: "moved within the grace period",
	MovedNeedlessly: "moved without a reason",
	RepeatedEvent:   "repeated event", MissingEvent: "missing event", WrongEvent: "wrong event", BrokenStream: "broken stream",
}

// String returns the name of the kind.
func (k Kind) String() string {
	if k < 1 || int(k) >= len(kinds) {
		return fmt.Sprintf("Kind(%d)", int(k))
	}
	return kinds[k]
}

// SafetyViolated is part of each report of a broken safety property (Lamport, 1977): a
// property that holds however late something happens, and also if it never happens.
const SafetyViolated = "a safety property is violated"

// IsSafety reports whether the guarantee is a safety property. The other guarantees, such
// as a response in time, require a machine with enough CPU time.
func (k Kind) IsSafety() bool {
	switch k {
	case Lost, Failed, FailedLate, ClosedIdle, NotListening, FalseExclusion, MissedExclusion, PlacementIgnored, MovedInGrace, MovedNeedlessly, BrokenStream:
		return false
	case TruncatedResponse, SecondResponse, WrongResponse, NoRun, DoubleRun, UnknownRun, TwoOwners, SharedEpoch, StaleEpoch, BadHeader, WrongService, DeniedRun,
		RepeatedEvent, MissingEvent, WrongEvent:
	}
	return true
}

// IsSafetyKind reports whether the kind with this name is a safety property. An unknown name
// counts as one.
func IsSafetyKind(name string) bool {
	kind := slices.Index(kinds[:], name)
	return kind < 1 || Kind(kind).IsSafety()
}

// Violation is one broken guarantee.
type Violation struct {
	Kind Kind
	Text string
}

// String returns the violation in one line.
func (v Violation) String() string { return v.Kind.String() + ": " + v.Text }
