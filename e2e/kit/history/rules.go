package history

import (
	"cmp"
	"time"
)

// Rules are the parameters of the checked cluster. The zero value is the strictest.
type Rules struct {
	// Shards is the number of shards of the cluster. 0 disables the check of the hash;
	// the shard of a request is then the shard in which it ran.
	Shards int
	// Targets contains the node ID by the address that clients use. An address without an
	// entry is a node ID.
	Targets map[string]string
	// Gateways are nodes that own no shards and vote: they count for a majority.
	Gateways []string
	// Voters is the maximum number of voters; 0 means that all nodes vote. All nodes with
	// faults may be voters.
	Voters int
	// OtherRequests contains the IDs of requests that were sent but are not part of the history.
	// Their responses are checked elsewhere, so their runs are not unknown. The value
	// true means that the request was Denied, so it must not run.
	OtherRequests map[string]bool
	// Takeover is the --takeover of the nodes: "lease", "immediate" or "timeout". Empty
	// means "timeout".
	Takeover string
	// Lease, DeadAfter, DrainTimeout, StreamGrace and QueueWait are the settings of the
	// nodes. 0 means the default: 500 ms, 2.5 s, 5 s, 250 ms and 10 s.
	Lease, DeadAfter, DrainTimeout, StreamGrace, QueueWait time.Duration
	// ReleaseTimeout is the setting of the nodes. 0 means that their apps have no hooks.
	ReleaseTimeout time.Duration
	// MaxClockSkew is the maximum difference between the rates of any two clocks; 0.1 is 10 %.
	MaxClockSkew float64
	// MaxAbortNotice is how late an app may notice that its node aborted a request. It is the
	// maximum overlap of such a run with the runs of the next owner. 0 means 250 ms.
	MaxAbortNotice time.Duration
	// MaxCPUWait limits how much later than MaxAbortNotice an app may notice an abort, or its
	// process may end, because threads waited for processors after a pause. 0 means twice
	// MaxAbortNotice.
	MaxCPUWait time.Duration
	// WakeTime is how long after a pause a run may begin that its node had admitted before:
	// the pause came between the last check of the lease and the write. 0 means that this
	// is not permitted.
	WakeTime time.Duration
	// SlowLog reports that a round may have begun long before its map is committed. So a
	// move within a grace period may have been decided before.
	SlowLog bool
	// SettleTime is how long a request may still fail after another owner serves the shard,
	// or after the fault of its ingress node ended. 0 means 1 s.
	SettleTime time.Duration
	// MaxStartTime is the maximum time between the start of a process and its first listening
	// socket. 0 means 10 s.
	MaxStartTime time.Duration
}

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

// node returns the node that listens at an address.
func (r *Rules) node(target string) string {
	if n, ok := r.Targets[target]; ok {
		return n
	}
	return target
}

// longestByAnyClock returns the longest real time that a timeout d can take, by the slowest clock.
func (r *Rules) longestByAnyClock(d time.Duration) int64 {
	return int64(float64(d) / (1 - r.MaxClockSkew/2))
}

// shortestByAnyClock returns the shortest real time that a timeout d can take, by the fastest clock.
func (r *Rules) shortestByAnyClock(d time.Duration) int64 {
	return int64(float64(d) / (1 + r.MaxClockSkew/2))
}

// earliestTakeover returns the earliest time at which other nodes may run the unreleased
// shards of a node that held a lease at leased. A lease that is valid at leased was
// granted at leased - Lease or later. From then on, the leader waits for DeadAfter. With
// crash evidence, which may be real or forged, it waits for Lease + 10 % with --takeover
// lease, and not at all with immediate.
func (r *Rules) earliestTakeover(leased int64, evidence bool) int64 {
	wait := r.shortestByAnyClock(r.DeadAfter)
	if evidence {
		switch r.Takeover {
		case "immediate":
			return leased - r.longestByAnyClock(r.Lease)
		case "lease":
			wait = r.shortestByAnyClock(r.Lease + r.Lease/10)
		}
	}
	return leased - r.longestByAnyClock(r.Lease) + wait
}
