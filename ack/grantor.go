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
type Grantor struct {
	self      string
	voters    []string
	confirmed map[string]time.Duration
	floor     time.Duration // the start of the leader's barrier; negative before it
	revoked   bool          // the own term moved on
	scratch   []time.Duration
}

func newGrantor(self string) Grantor {
	return Grantor{self: self, confirmed: map[string]time.Duration{}, floor: -1}
}

// confirm notes that server had not voted in a newer term at the moment at.
func (g *Grantor) confirm(server string, at time.Duration) {
	if old, ok := g.confirmed[server]; !ok || at > old {
		g.confirmed[server] = at
	}
}

// quorum returns Q, and false if nothing may be granted at all.
func (g *Grantor) quorum() (time.Duration, bool) {
	if g.revoked || g.floor < 0 || len(g.voters) == 0 {
		return 0, false
	}
	g.scratch = g.scratch[:0]
	for _, v := range g.voters {
		at, ok := g.confirmed[v]
		if !ok {
			at = -1
		}
		g.scratch = append(g.scratch, at)
	}
	slices.Sort(g.scratch)
	// With n voters, n/2+1 of them have confirmed the value at (n-1)/2.
	return max(g.scratch[(len(g.scratch)-1)/2], g.floor), true
}

// grant returns for how long a node may serve from now on by the timing t, zero
// for not at all.
func (g *Grantor) grant(now time.Duration, t Timing) time.Duration {
	q, ok := g.quorum()
	if !ok {
		return 0
	}
	return min(max(q+t.Lease-now, 0), t.Lease)
}
