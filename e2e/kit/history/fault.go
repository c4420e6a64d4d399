package history

import (
	"fmt"
	"math"
	"time"
)

// FaultKind says what a test did to a node.
type FaultKind int

// The kinds of faults.
const (
	// Killed: its process died without a word, from kill -9 or by itself.
	Killed FaultKind = iota + 1
	// Stopped: its process stood still, and held its connections.
	Stopped
	// Left: it was asked to end, with SIGTERM, or was not started yet. This excuses
	// nothing but that nobody listens.
	Left
	// Unreachable: packets between it and other nodes were lost.
	Unreachable
	// Reset: what it and its Peer sent to each other was answered by forged resets,
	// refusals of connections that nobody had refused.
	Reset
	// NoApp: its app died, or said that it was sick.
	NoApp
	// BadDisk: its disk refused what it wrote, or hung. It may have ended itself.
	BadDisk
	// Behind: the log was kept from it, or what it wrote took long.
	Behind
	// Stalled: the machine had no time for the node, or, if none is named, for whoever
	// looks at its clock, and so, it is to be feared, for any node.
	Stalled
)

var faultKinds = [...]string{
	Killed: "killed", Stopped: "stopped", Left: "stopping", Unreachable: "apart", Reset: "reset",
	NoApp: "without an app", BadDisk: "without a disk", Behind: "behind", Stalled: "on a busy machine",
}

// String names the kind.
func (k FaultKind) String() string {
	if k < 1 || int(k) >= len(faultKinds) {
		return fmt.Sprintf("FaultKind(%d)", int(k))
	}
	return faultKinds[k]
}

// Fault is what a test did to a node, and when.
type Fault struct {
	Kind FaultKind
	Node string
	// Peer is the other node of a Reset. One with an empty Node or Peer is between
	// all nodes.
	Peer string
	From int64
	// By is when the process, or of NoApp the app, had certainly ended; 0: it has
	// not. It lost its connections at some moment from From to By.
	By int64
	// Holds tells that the process said at From that it ends, because the app in it does
	// not return. From then on answers fail, but until By nobody else may run what it does.
	Holds bool
	// Grace is within what time a process that was asked to end said that it comes back:
	// until then nothing that its node has moves. 0: it hands over.
	Grace time.Duration
	// Until is when the fault was mended: the process continued or started again, the
	// wires healed, the disk good. 0: it lasts.
	Until int64
}

// never is when something ends that has not ended.
const never = math.MaxInt64

func (f *Fault) until() int64 { return orNever(f.Until) }

// gives is from when others may run what the process may still run.
func (f *Fault) gives() int64 {
	if f.Holds {
		return orNever(f.By)
	}
	return f.From
}

// touches tells whether the node is one of those it was done to.
func (f *Fault) touches(node string) bool {
	if f.Kind == Reset {
		return f.Node == "" || f.Peer == "" || f.Node == node || f.Peer == node
	}
	return f.Node == node || f.Kind == Stalled && f.Node == ""
}

// during tells whether it lasted at any time of an interval.
func (f *Fault) during(from, until int64) bool { return f.From <= until && from <= f.until() }

// dead tells whether the process ended without a word.
func (f *Fault) dead() bool { return f.By != 0 && (f.Kind == Killed || f.Kind == BadDisk) }

// wires tells whether it was done to what is between nodes.
func (f *Fault) wires() bool { return f.Kind == Unreachable || f.Kind == Reset }

// mended is when what it had disturbed is in order, never while it lasts. Packets that
// were lost the kernel repeats after as long again as they were at most, and nodes wait
// for no more than dead-after. Leases that ended cut what runs later than that.
func (r *Rules) mended(f *Fault) int64 {
	dead := int64(r.DeadAfter)
	switch {
	case f.Until == 0:
		return never
	case f.Kind == Unreachable:
		return f.Until + min(f.Until-f.From, dead)
	case f.Kind == Stalled:
		return f.Until + dead
	}
	return f.Until
}

// orNever takes 0 for a time that has not come.
func orNever(t int64) int64 {
	if t == 0 {
		return never
	}
	return t
}

// after is a time and a while later; never stays never.
func after(t, while int64) int64 {
	if t > never-while {
		return never
	}
	return t + while
}
