package history

import (
	"fmt"
	"math"
	"time"
)

// FaultKind is a kind of fault that a test injects into a node.
type FaultKind int

// The kinds of faults.
const (
	// Killed means that the process died without notice, from kill -9 or from a crash.
	Killed FaultKind = iota + 1
	// Paused means that the process did not run but kept its connections (SIGSTOP).
	Paused
	// Terminated means that the process was asked to terminate with SIGTERM, or has not been
	// started yet. It excuses refused connections, and nothing else.
	Terminated
	// Unreachable means that packets between the node and other nodes were lost.
	Unreachable
	// Reset means that a firewall answered packets between the node and Peer with forged RST
	// packets. To both nodes, that looks like a peer process that has exited.
	Reset
	// AppDown means that the app died, or reported that it is unhealthy.
	AppDown
	// AppHung means that the app did not run but kept its connections (SIGSTOP), while its node
	// continued.
	AppHung
	// DiskFault means that the disk rejected writes or stalled. The process may have exited
	// because of that.
	DiskFault
	// LogDelayed means that the node did not receive the Raft log, or its disk writes were
	// slow.
	LogDelayed
	// Stalled means that the machine had no CPU time for the node. An empty Node means that the
	// observer itself did not run, so any node may have stalled.
	Stalled
)

var faultKinds = [...]string{
	Killed: "killed", Paused: "paused", Terminated: "terminated", Unreachable: "unreachable", Reset: "reset",
	AppDown: "app down", AppHung: "app hung", DiskFault: "disk fault", LogDelayed: "log delayed", Stalled: "stalled",
}

// String returns the name of the kind.
func (k FaultKind) String() string {
	if k < 1 || int(k) >= len(faultKinds) {
		return fmt.Sprintf("FaultKind(%d)", int(k))
	}
	return faultKinds[k]
}

// Fault is a fault of a node, and the time in which it was active. Times are values of
// Now.
type Fault struct {
	Kind FaultKind
	Node string
	// Peer is the other node of a Reset. A Reset with an empty Node or Peer affects the
	// connections between all nodes.
	Peer string
	// From is the start of the fault.
	From int64
	// LatestExit is the latest possible time of the exit of the process, or of the app for AppDown. 0
	// means that the process has not exited. The process lost its connections at some time
	// between From and LatestExit.
	LatestExit int64
	// HoldsShards reports that the process announced its exit at From, because its in-process app
	// continued after its requests were aborted. From then on requests fail. Until LatestExit no
	// other node may take over the shards of the node, because the app may still use them.
	HoldsShards bool
	// Grace is how long other nodes must wait for a terminated process to restart in
	// place. No shard of its node may move before that. 0 means that the node hands over
	// its shards.
	Grace time.Duration
	// ReachedByLeader reports, for Unreachable, that the leader receives the heartbeats of the node, and that the
	// majority of the other nodes cannot connect to it. The leader must then exclude the node.
	ReachedByLeader bool
	// RestoredAt is when the network was restored, for ReachedByLeader. 0 means that it is not restored. Until may be
	// later, because the effects of the fault continue.
	RestoredAt int64
	// Until is when the fault ended: the process continued or started again, the network
	// was restored, or the disk worked again. 0 means that the fault continues.
	Until int64
}

// never is the end of a fault that has not ended. It is later than every other time.
const never = math.MaxInt64

// end returns when the fault ended, or never.
func (f *Fault) end() int64 { return orNever(f.Until) }

// takeoverAllowedFrom returns the earliest time at which other nodes may take over the shards that the
// process held.
func (f *Fault) takeoverAllowedFrom() int64 {
	if f.HoldsShards {
		return orNever(f.LatestExit)
	}
	return f.From
}

// affects reports whether the fault affects the node.
func (f *Fault) affects(node string) bool {
	if f.Kind == Reset {
		return f.Node == "" || f.Peer == "" || f.Node == nodeOf(node) || f.Peer == nodeOf(node)
	}
	if f.isInstanceFault() {
		return f.Node == node
	}
	return f.Node == node || f.Node == nodeOf(node) || f.Kind == Stalled && f.Node == ""
}

// affectsAny reports whether the fault affects at least one of the nodes.
func (f *Fault) affectsAny(nodes map[string]bool) bool {
	for node := range nodes {
		if f.affects(node) {
			return true
		}
	}
	return false
}

// overlaps reports whether the fault was active at any time of an interval.
func (f *Fault) overlaps(from, until int64) bool { return f.From <= until && from <= f.end() }

// overlapsWithGrace is like overlaps, but extends the fault by grace.
func (f *Fault) overlapsWithGrace(from, until int64, grace time.Duration) bool {
	return f.From <= until && from <= addDuration(f.end(), int64(grace))
}

// isCrash reports whether the process exited without announcing it.
func (f *Fault) isCrash() bool { return f.LatestExit != 0 && (f.Kind == Killed || f.Kind == DiskFault) }

// isNetwork reports whether the fault affects the network between nodes.
func (f *Fault) isNetwork() bool { return f.Kind == Unreachable || f.Kind == Reset }

// effectsEnd returns when the effects of a fault end, or never while the fault is active.
//
// The kernel doubles its retransmission interval during packet loss, so a retransmission may come as
// late after the loss as the loss lasted. Nodes close a silent connection after DeadAfter. A node
// that got no CPU time for longer than its lease aborts requests within DeadAfter after it continues.
func (r *Rules) effectsEnd(fault *Fault) int64 {
	deadAfter := int64(r.DeadAfter)
	switch {
	case fault.Until == 0:
		return never
	case fault.Kind == Unreachable:
		return fault.Until + min(fault.Until-fault.From, deadAfter)
	case fault.Kind == Stalled:
		return fault.Until + deadAfter
	}
	return fault.Until
}

// orNever returns at. It returns never if at is zero, which means that the process has not exited or
// that the fault has not ended.
func orNever(at int64) int64 {
	if at == 0 {
		return never
	}
	return at
}

// addDuration returns at + duration. It returns never if at is never, or if the sum would overflow.
func addDuration(at, duration int64) int64 {
	if at > never-duration {
		return never
	}
	return at + duration
}
