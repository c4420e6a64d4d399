package leader

import (
	"slices"
	"time"

	"shardway/ack"
)

// leaseIssuer calculates how long the leases of a leader may last. It is a part of Leader.
//
// A heartbeat of a voter contains its Raft term, and echoes a response k of the leader. If the term
// is that of the leader, the voter had not voted in a newer term when k was sent. The quorum time
// is the latest time that a quorum of voters has confirmed in this way. No lease ends later than
// quorum time + lease. So every lease of an old leader has expired one lease after the next
// election.
type leaseIssuer struct {
	self         string
	voters       []string
	confirmedAt  map[string]time.Duration
	barrierStart time.Duration // start of the barrier of this leader; negative before it is applied
	revoked      bool          // the Raft term of the own node has changed
	sortBuf      []time.Duration
}

func newLeaseIssuer(self string) leaseIssuer {
	return leaseIssuer{self: self, confirmedAt: map[string]time.Duration{}, barrierStart: -1}
}

// confirm records that server had not voted in a newer term at the time at.
func (g *leaseIssuer) confirm(server string, at time.Duration) {
	if old, ok := g.confirmedAt[server]; !ok || at > old {
		g.confirmedAt[server] = at
	}
}

// quorumTime returns the quorum time. ok is false if no lease may be granted.
func (g *leaseIssuer) quorumTime() (time.Duration, bool) {
	if g.revoked || g.barrierStart < 0 || len(g.voters) == 0 {
		return 0, false
	}
	g.sortBuf = g.sortBuf[:0]
	for _, voter := range g.voters {
		at, ok := g.confirmedAt[voter]
		if !ok {
			at = -1
		}
		g.sortBuf = append(g.sortBuf, at)
	}
	slices.Sort(g.sortBuf)
	// With n voters, n/2+1 of them have confirmed the element at (n-1)/2.
	return max(g.sortBuf[(len(g.sortBuf)-1)/2], g.barrierStart), true
}

// grant returns the length of a lease from now on, with the given timing. Zero means that no lease
// may be granted.
func (g *leaseIssuer) grant(now time.Duration, timing ack.Timing) time.Duration {
	quorumTime, ok := g.quorumTime()
	if !ok {
		return 0
	}
	return min(max(quorumTime+timing.Lease-now, 0), timing.Lease)
}
