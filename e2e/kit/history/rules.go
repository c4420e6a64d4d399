package history

import (
	"cmp"
	"time"
)

// Rules are what a test knows beside the history. Zero is the strictest.
type Rules struct {
	// Shards is the cluster's number of shards; 0 leaves the hash unchecked, and a
	// request is in the shard in which it ran.
	Shards int
	// Targets tells which node listens at an address that clients use. One that is
	// not in it is the name of a node.
	Targets map[string]string
	// Gateways are nodes that own no shards and vote: they count for a majority.
	Gateways []string
	// Voters is how many nodes vote at most; 0: all. Those that something was done to
	// may all be among them.
	Voters int
	// Known are ids of requests that were sent beside those of the history, and
	// judged elsewhere: their runs are not unknown. The value tells that the answer
	// was Denied: then none may run.
	Known map[string]bool
	// Takeover is the nodes' --takeover: "lease", "immediate", or "timeout", which is also
	// what empty means.
	Takeover string
	// Lease, DeadAfter, DrainTimeout, StreamGrace and QueueWait are the nodes' own; 0 are
	// their defaults: 500 ms, 2.5 s, 5 s, 250 ms and 10 s.
	Lease, DeadAfter, DrainTimeout, StreamGrace, QueueWait time.Duration
	// ReleaseTimeout is the nodes' own; 0: their apps have no hooks.
	ReleaseTimeout time.Duration
	// Skew is by how much the rates of any two clocks differ, 0.1 for 10 %.
	Skew float64
	// CutNotice is how late an app may notice that its node gave a request up,
	// and so how far such a run may reach into the next owner's. 0 is 250 ms.
	CutNotice time.Duration
	// Starved bounds by how much later than CutNotice an app may notice, or its process
	// end, that goes on after a stop, of what its node has waited for processors since. 0
	// is twice CutNotice.
	Starved time.Duration
	// Wake is how long after a stop a run may begin that its node had admitted
	// before: it was stopped between its last look at the lease and the write. 0 is
	// not at all.
	Wake time.Duration
	// SlowLog: a round may have begun long before its map is committed, so what moves
	// within a grace may have been on its way before.
	SlowLog bool
	// Settle is how long after the shard is served again, or what was done to its
	// ingress node is mended, a request may still fail of what had been before. 0
	// is 1 s.
	Settle time.Duration
	// Boot is how long a process that was started may take until it listens. 0 is
	// 10 s.
	Boot time.Duration
}

func (r Rules) normal() Rules {
	r.Lease = cmp.Or(r.Lease, 500*time.Millisecond)
	r.DeadAfter = cmp.Or(r.DeadAfter, 2500*time.Millisecond)
	r.DrainTimeout = cmp.Or(r.DrainTimeout, 5*time.Second)
	r.StreamGrace = cmp.Or(r.StreamGrace, 250*time.Millisecond)
	r.QueueWait = cmp.Or(r.QueueWait, 10*time.Second)
	r.CutNotice = cmp.Or(r.CutNotice, 250*time.Millisecond)
	r.Starved = cmp.Or(r.Starved, 2*r.CutNotice)
	r.Settle = cmp.Or(r.Settle, time.Second)
	r.Boot = cmp.Or(r.Boot, 10*time.Second)
	return r
}

// node is who listens at an address.
func (r *Rules) node(target string) string {
	if n, ok := r.Targets[target]; ok {
		return n
	}
	return target
}

// most is the longest that a wait by anybody's clock may last, least the shortest.
func (r *Rules) most(d time.Duration) int64  { return int64(float64(d) / (1 - r.Skew/2)) }
func (r *Rules) least(d time.Duration) int64 { return int64(float64(d) / (1 + r.Skew/2)) }

// soonest is when, after a moment at which a node had a lease, others may at the
// earliest run what is its own and what it has not given back. A lease that lasts
// at t was granted at t - lease or later. From then on the leader counts dead-after;
// for crash evidence, which may be right or forged, lease + 10 % with --takeover lease,
// and nothing with immediate.
func (r *Rules) soonest(leased int64, evidence bool) int64 {
	wait := r.least(r.DeadAfter)
	if evidence {
		switch r.Takeover {
		case "immediate":
			return leased - r.most(r.Lease)
		case "lease":
			wait = r.least(r.Lease + r.Lease/10)
		}
	}
	return leased - r.most(r.Lease) + wait
}
