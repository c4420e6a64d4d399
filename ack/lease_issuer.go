package ack

import (
	"slices"
	"time"
)

// Grantor knows until when its leader may let nodes serve. It is part of Leader
// and shares its step.
//
// A voter's heartbeat that names the leader's term and echoes answer k proves
// that this voter had not voted in a newer term when k was sent. Q is the latest
// moment that a quorum has confirmed so; nothing is granted beyond Q + lease, so
// every lease of an old leader has run out one lease after the next election.
type leaseIssuer struct {
	self         string
	voters       []string
	confirmedAt  map[string]time.Duration
	barrierStart time.Duration // the start of the leader's barrier; negative before it
	revoked      bool          // the own term moved on
	scratch      []time.Duration
}

func newLeaseIssuer(self string) leaseIssuer {
	return leaseIssuer{self: self, confirmedAt: map[string]time.Duration{}, barrierStart: -1}
}

// confirm notes that server had not voted in a newer term at the moment at.
func (g *leaseIssuer) confirm(server string, at time.Duration) {
	if old, ok := g.confirmedAt[server]; !ok || at > old {
		g.confirmedAt[server] = at
	}
}

// quorum returns Q, and false if nothing may be granted at all.
func (g *leaseIssuer) quorumTime() (time.Duration, bool) {
	if g.revoked || g.barrierStart < 0 || len(g.voters) == 0 {
		return 0, false
	}
	g.scratch = g.scratch[:0]
	for _, v := range g.voters {
		at, ok := g.confirmedAt[v]
		if !ok {
			at = -1
		}
		g.scratch = append(g.scratch, at)
	}
	slices.Sort(g.scratch)
	// With n voters, n/2+1 of them have confirmed the value at (n-1)/2.
	return max(g.scratch[(len(g.scratch)-1)/2], g.barrierStart), true
}

// grant returns for how long a node may serve from now on by the timing t, zero
// for not at all.
func (g *leaseIssuer) grant(now time.Duration, t Timing) time.Duration {
	q, ok := g.quorumTime()
	if !ok {
		return 0
	}
	return min(max(q+t.Lease-now, 0), t.Lease)
}
