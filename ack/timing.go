package ack

import (
	"fmt"
	"slices"
	"time"
)

// Timing is what guards G1 and so is a fact of the cluster, never of one node: the
// State holds it, a leader grants by it and waits by it, and tells each node how
// long it may serve and by when it must have cut. Nodes that went by flags of their
// own would run what others own.
type Timing struct {
	// Lease is the longest time for which a node may serve after a heartbeat, at
	// most MaxLease.
	Lease time.Duration
	// DeadAfter is how long a node must have been granted nothing before its
	// shards are taken from it unasked, at most MaxDeadAfter.
	DeadAfter time.Duration
	// Fence says what crash evidence is worth, Pause what waits for a map.
	Fence Fence
	Pause Pause
}

// The bounds of a Timing. Package internal/timingrules has the conditions between them.
const (
	MaxLease     = time.Hour
	MaxDeadAfter = 24 * time.Hour
)

// DefaultTiming returns the defaults of the settings.
func DefaultTiming() Timing {
	return Timing{Lease: 500 * time.Millisecond, DeadAfter: 2500 * time.Millisecond, Fence: FenceLease, Pause: PauseMoving}
}

// Pace holds what each node sets for itself: no guarantee rests on it. All must be
// above zero but RestartGrace.
type Pace struct {
	// Heartbeat is the time between two heartbeats of a node.
	Heartbeat time.Duration
	// DrainTimeout is how long requests of a moving shard may run on.
	DrainTimeout time.Duration
	// RestartGrace makes the leader wait for the return of a crashed node before
	// it takes its shards. Zero: it does not wait.
	RestartGrace time.Duration
}

// DefaultPace returns the defaults of the settings.
func DefaultPace() Pace {
	return Pace{Heartbeat: 100 * time.Millisecond, DrainTimeout: 5 * time.Second}
}

const (
	// coalesce is how long a leader lets causes for a new map gather.
	minBatchDelay = 20 * time.Millisecond
	// freshBeats is the age, in heartbeats, up to which an echoed answer shows
	// that both directions of the link work.
	freshHeartbeats = 5
	// backStreak is the number of fresh heartbeats in a row that make a node
	// eligible.
	requiredStreak = 3
	// barrierLeast is how long a new leader may take to apply its barrier, however
	// short DeadAfter is: one write may take a second on a disk that is busy, and
	// leaders that give way to each other before that never lead.
	minBarrierTime = 2500 * time.Millisecond
)

// AckDeadline is how long a leader waits for acknowledgements of a proposal: the
// time that a node may drain, and one second for the messages.
func (p Pace) AckDeadline() time.Duration { return p.DrainTimeout + time.Second }

// freshness is the age up to which an echoed answer is fresh.
func (p Pace) freshness() time.Duration { return freshHeartbeats * p.Heartbeat }

// CutAfter is how long after the end of its lease a node lets requests run on
// (why 3): it ends 15 % before another node may own the shard.
func (t Timing) CutAfter() time.Duration { return t.DeadAfter*85/100 - t.Lease }

// leaseEnd is how long after a grant its lease has certainly run out, whatever
// the holder's clock.
func (t Timing) leaseEnd() time.Duration { return t.Lease + t.Lease/10 }

// Longer returns what to wait by where nodes may hold leases by either: field by
// field the larger, and of two fences the stricter. Its Pause is t's.
func (t Timing) Longer(o Timing) Timing {
	t.Lease, t.DeadAfter = max(t.Lease, o.Lease), max(t.DeadAfter, o.DeadAfter)
	if o.Fence.strictness() > t.Fence.strictness() {
		t.Fence = o.Fence
	}
	return t
}

// Fence says what crash evidence is worth (docs/internals/protocol-leases.md, "When a shard may be taken").
type Fence uint8

// The fences.
const (
	// FenceLease takes a crashed node's shards once its lease has certainly run
	// out.
	FenceLease Fence = iota + 1
	// FenceStrict starts a round on crash evidence but waits for DeadAfter.
	FenceStrict
	// FenceRefused takes crash evidence at its word.
	FenceRefused
)

var fenceNames = [...]string{FenceLease: "lease", FenceStrict: "strict", FenceRefused: "refused"}

// String returns the fence as --fence spells it.
func (f Fence) String() string { return enumName(fenceNames[:], uint8(f), "Fence") }

// ParseFence reads what String wrote, and reports whether it is one.
func ParseFence(name string) (Fence, bool) {
	i, ok := enumIndex(fenceNames[:], name)
	return Fence(i), ok
}

// strictness orders the fences: what one lets be taken, a stricter one does not
// let be taken earlier.
func (f Fence) strictness() int {
	return slices.Index([]Fence{FenceRefused, FenceLease, FenceStrict}, f)
}

// Pause says what waits while a map changes (G11).
type Pause uint8

// The pauses.
const (
	// PauseMoving holds the shards that move.
	PauseMoving Pause = iota + 1
	// PauseCluster holds every shard, and while a node has no lease, too.
	PauseCluster
)

var pauseNames = [...]string{PauseMoving: "moving", PauseCluster: "cluster"}

// String returns the pause as --pause spells it.
func (p Pause) String() string { return enumName(pauseNames[:], uint8(p), "Pause") }

// ParsePause reads what String wrote, and reports whether it is one.
func ParsePause(name string) (Pause, bool) {
	i, ok := enumIndex(pauseNames[:], name)
	return Pause(i), ok
}

func enumName(names []string, i uint8, kind string) string {
	if i == 0 || int(i) >= len(names) {
		return fmt.Sprintf("%s(%d)", kind, i)
	}
	return names[i]
}

func enumIndex(names []string, name string) (int, bool) {
	i := slices.Index(names, name)
	return max(i, 0), i > 0
}
