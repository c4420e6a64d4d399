package history

import (
	"cmp"
	"time"
)

// Rules are the parameters of the checked cluster. The zero value is the strictest.
type Rules struct {
	// The cluster.

	// Shards is the number of shards of the cluster. Zero disables the check of the hash: the shard
	// of a request is then the shard in which it ran.
	Shards int
	// Services are the services of a cluster that has several. The key of a request contains the name of its
	// service. ServiceOfApp contains the service of each app.
	Services     []Service
	ServiceOfApp map[string]string
	// Targets contains the node ID by the address that clients use. An address without an
	// entry is a node ID.
	Targets map[string]string
	// Gateways are nodes that own no shards and vote: they count for a majority.
	Gateways []string
	// Voters is the maximum number of voters. Zero means that all nodes vote. Any node with a fault
	// may be a voter.
	Voters int
	// SeveralInstances reports that nodes have several app instances. The failure of one of them must
	// then move only its own shards.
	SeveralInstances bool
	// OtherRequests contains the IDs of requests that were sent but are not part of the history.
	// Their responses are checked elsewhere, so their runs are not unknown. The value
	// true means that the request was Denied, so it must not run.
	OtherRequests map[string]bool

	// Settings of the nodes.

	// Takeover is "lease", "immediate" or "timeout". Empty means "timeout".
	Takeover string
	// Lease, DeadAfter, DrainTimeout, StreamGrace and QueueWait have the defaults 500 ms, 2.5 s, 5 s,
	// 250 ms and 10 s, which 0 selects.
	Lease, DeadAfter, DrainTimeout, StreamGrace, QueueWait time.Duration
	// ReleaseTimeout is 0 if the apps have no hooks.
	ReleaseTimeout time.Duration

	// Delays of a loaded machine.

	// MaxClockSkew is the maximum difference between the rates of any two clocks; 0.1 is 10 %.
	MaxClockSkew float64
	// MaxAbortNotice is the maximum time until an app notices that its node aborted a request. It is
	// the maximum overlap of such a run with the runs of the next owner. Zero means 250 ms.
	MaxAbortNotice time.Duration
	// MaxCPUWait is the maximum time that is added to MaxAbortNotice, for an abort or the end of a
	// process, if threads waited for processors after a pause. Zero means twice MaxAbortNotice.
	MaxCPUWait time.Duration
	// WakeTime is how long after a pause a run may begin if its node had admitted it before the
	// pause, which interrupted the node between the check of the lease and the write. Zero means
	// that no such run is permitted.
	WakeTime time.Duration
	// SlowLog reports that a map may be committed long after it was decided. A move within a grace
	// period is then permitted, because it may have been decided before.
	SlowLog bool
	// SettleTime is how long a request may still fail after another owner serves the shard,
	// or after the fault of its ingress node ended. 0 means 1 s.
	SettleTime time.Duration
	// MaxStartTime is the maximum time between the start of a process and its first listening
	// socket. 0 means 10 s.
	MaxStartTime time.Duration
}

// withDefaults returns the rules with the defaults of fields that are zero.
func (r Rules) withDefaults() Rules {
	r.Lease = cmp.Or(r.Lease, 500*time.Millisecond)
	r.DeadAfter = cmp.Or(r.DeadAfter, 2500*time.Millisecond)
	r.DrainTimeout = cmp.Or(r.DrainTimeout, 5*time.Second)
	r.StreamGrace = cmp.Or(r.StreamGrace, 250*time.Millisecond)
	r.QueueWait = cmp.Or(r.QueueWait, 10*time.Second)
	r.MaxAbortNotice = cmp.Or(r.MaxAbortNotice, 250*time.Millisecond)
	r.MaxCPUWait = cmp.Or(r.MaxCPUWait, 2*r.MaxAbortNotice)
	r.SettleTime = cmp.Or(r.SettleTime, time.Second)
	r.MaxStartTime = cmp.Or(r.MaxStartTime, 10*time.Second)
	return r
}

// node returns the ID of the node that listens at an address.
func (r *Rules) node(target string) string {
	if node, ok := r.Targets[target]; ok {
		return node
	}
	return target
}

// longestByAnyClock returns the longest real time after which a timeout can end, by the slowest
// permitted clock.
func (r *Rules) longestByAnyClock(timeout time.Duration) int64 {
	return int64(float64(timeout) / (1 - r.MaxClockSkew/2))
}

// shortestByAnyClock returns the shortest real time after which a timeout can end, by the fastest
// permitted clock.
func (r *Rules) shortestByAnyClock(timeout time.Duration) int64 {
	return int64(float64(timeout) / (1 + r.MaxClockSkew/2))
}

// earliestTakeover returns the earliest time at which other nodes may run the unreleased shards of a
// node that held a lease at lastLeased. That lease was granted at lastLeased - Lease or later. From
// then on, the leader waits for DeadAfter. With evidence of a crash, which may be real or forged, it
// waits for Lease + 10 % with --takeover lease, and does not wait with --takeover immediate.
func (r *Rules) earliestTakeover(lastLeased int64, hasEvidence bool) int64 {
	var wait int64
	switch {
	case hasEvidence && r.Takeover == "immediate":
		wait = 0
	case hasEvidence && r.Takeover == "lease":
		wait = r.shortestByAnyClock(r.Lease + r.Lease/10)
	default:
		wait = r.shortestByAnyClock(r.DeadAfter)
	}
	leaseGrantedAt := lastLeased - r.longestByAnyClock(r.Lease)
	return leaseGrantedAt + wait
}

// MaxExclusionTime returns the maximum time between the fault of a node that only the leader reaches, and the
// observation of a map that excludes it. The other nodes detect the fault within twice DeadAfter. Their reports must
// then last for DeadAfter, which maxRoundTime includes.
func (r Rules) MaxExclusionTime() time.Duration {
	r = r.withDefaults()
	return 2*r.DeadAfter + time.Duration(r.maxRoundTime())
}

// maxRoundTime returns the maximum duration of a round, the change from one map to the next, until the
// test observes the new map. It is the sum of these times:
//   - DeadAfter
//   - the acknowledgement deadline: DrainTimeout + 1 s + ReleaseTimeout
//   - observationLag
func (r *Rules) maxRoundTime() int64 {
	acknowledgedBy := r.DrainTimeout + time.Second + r.ReleaseTimeout
	return int64(r.DeadAfter+acknowledgedBy) + observationLag
}
