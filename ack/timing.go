package ack

import (
	"fmt"
	"slices"
	"time"
)

// Timing contains the durations on which guarantee G1 (one owner at a time) depends, so it belongs
// to the cluster and not to a node. The State contains it, and the leader uses it to grant leases
// and to wait for their end. Each response to a node contains how long the node may serve, and when
// it must abort its running requests. If every node had its own settings, a node could still serve
// shards that another node owns already.
type Timing struct {
	// Lease is the maximum time for which a node may serve after a heartbeat, at most MaxLease.
	Lease time.Duration
	// DeadAfter is how long a node must have had no grant before its shards are taken without
	// its acknowledgement, at most MaxDeadAfter.
	DeadAfter time.Duration
	// Takeover determines how soon crash evidence allows other nodes to take the shards of a node.
	Takeover Takeover
	// RebalanceMode determines which requests wait while a map change is in progress.
	RebalanceMode RebalanceMode
}

// The bounds of a Timing. Package internal/timingrules has the conditions between them.
const (
	MaxLease     = time.Hour
	MaxDeadAfter = 24 * time.Hour
)

// DefaultTiming returns the default settings.
func DefaultTiming() Timing {
	return Timing{Lease: 500 * time.Millisecond, DeadAfter: 2500 * time.Millisecond, Takeover: TakeoverLease, RebalanceMode: RebalanceIncremental}
}

// Pace contains the settings of one node on which no guarantee depends. All must be above zero
// except RestartGrace.
type Pace struct {
	// Heartbeat is the heartbeat interval of a node.
	Heartbeat time.Duration
	// DrainTimeout is how long requests of a moving shard may continue.
	DrainTimeout time.Duration
	// RestartGrace is how long the leader waits for a crashed node to return before it takes
	// the shards of the node. Zero means no wait.
	RestartGrace time.Duration
}

// DefaultPace returns the default settings.
func DefaultPace() Pace {
	return Pace{Heartbeat: 100 * time.Millisecond, DrainTimeout: 5 * time.Second}
}

// AckDeadline returns how long a leader waits for acknowledgements of a proposal: the drain
// timeout, and one second for the messages.
func (pc Pace) AckDeadline() time.Duration { return pc.DrainTimeout + time.Second }

// AbortDelay returns how long after the end of its lease a node lets requests continue. The
// requests end at 85 % of DeadAfter, before another node may own the shard (reason 3 of
// docs/internals/protocol-reasons.md).
func (t Timing) AbortDelay() time.Duration { return t.DeadAfter*85/100 - t.Lease }

// LeaseExpiry returns how long after a grant the lease has certainly expired, by the clock of any
// holder. The rates of two clocks differ by less than 10 %.
func (t Timing) LeaseExpiry() time.Duration { return t.Lease + t.Lease/10 }

// Longer returns the timing to use while some nodes may still hold leases under t and others under
// other: the longer duration of each kind, and the stricter takeover. RebalanceMode is that of t.
func (t Timing) Longer(other Timing) Timing {
	t.Lease, t.DeadAfter = max(t.Lease, other.Lease), max(t.DeadAfter, other.DeadAfter)
	if other.Takeover.strictness() > t.Takeover.strictness() {
		t.Takeover = other.Takeover
	}
	return t
}

// Takeover determines how soon crash evidence allows other nodes to take the shards of a node
// (docs/internals/protocol-takeovers.md, "When a shard may be taken").
type Takeover uint8

// The takeover policies.
const (
	// TakeoverLease takes the shards of a crashed node once its lease has certainly expired.
	TakeoverLease Takeover = iota + 1
	// TakeoverTimeout starts a round at crash evidence, but waits for DeadAfter.
	TakeoverTimeout
	// TakeoverImmediate takes the shards immediately, on crash evidence alone.
	TakeoverImmediate
)

var takeoverNames = [...]string{TakeoverLease: "lease", TakeoverTimeout: "timeout", TakeoverImmediate: "immediate"}

// String returns the takeover as the flag spells it.
func (tk Takeover) String() string { return enumName(takeoverNames[:], uint8(tk), "Takeover") }

// ParseTakeover parses the output of String. ok is false for another name.
func ParseTakeover(name string) (Takeover, bool) {
	index, ok := enumIndex(takeoverNames[:], name)
	return Takeover(index), ok
}

// strictness orders the takeovers: a stricter one never allows an earlier takeover.
func (tk Takeover) strictness() int {
	return slices.Index([]Takeover{TakeoverImmediate, TakeoverLease, TakeoverTimeout}, tk)
}

// RebalanceMode determines which requests wait while a map change is in progress. Guarantee G11 (only
// requests for moving shards wait) requires RebalanceIncremental.
type RebalanceMode uint8

// The rebalance modes.
const (
	// RebalanceIncremental holds the shards that move.
	RebalanceIncremental RebalanceMode = iota + 1
	// RebalanceStopTheWorld holds every shard, also while the node has no lease.
	RebalanceStopTheWorld
)

var rebalanceModeNames = [...]string{RebalanceIncremental: "incremental", RebalanceStopTheWorld: "stop-the-world"}

// String returns the mode as the flag spells it.
func (m RebalanceMode) String() string {
	return enumName(rebalanceModeNames[:], uint8(m), "RebalanceMode")
}

// ParseRebalanceMode parses the output of String. ok is false for another name.
func ParseRebalanceMode(name string) (RebalanceMode, bool) {
	index, ok := enumIndex(rebalanceModeNames[:], name)
	return RebalanceMode(index), ok
}

// enumName returns the name of a value of an enum, and its kind and number if it has none.
func enumName(names []string, value uint8, kind string) string {
	if value == 0 || int(value) >= len(names) {
		return fmt.Sprintf("%s(%d)", kind, value)
	}
	return names[value]
}

// enumIndex returns the value of an enum with the given name. ok is false if there is none.
func enumIndex(names []string, name string) (value int, ok bool) {
	index := slices.Index(names, name)
	return max(index, 0), index > 0
}
