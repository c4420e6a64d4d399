package node

import "time"

// pause decides whether a pause of the process must be reported. A pause is a period in which the process
// did not run, or by which its clock jumped. Each pause voids the lease, but most pauses do no harm,
// because the lease is renewed before it would have ended. The zero value is ready for use.
type pause struct {
	// had means that the process has had a lease.
	had bool
	gap time.Duration // length of a pause that may still cost the lease; zero means none
	end time.Duration // time at which the voided lease would have ended
}

// began records a pause of length gap that ends now. lease is the length of a lease, and end is the end of
// the lease that the pause has voided; zero means no lease. began returns true if the pause must be
// reported now, because it is longer than half a lease or the lease ended during it. Before the first
// lease it returns false, because the node had no lease to lose.
func (p *pause) began(now, gap, lease, end time.Duration) bool {
	p.had = p.had || end > 0
	p.gap = 0
	switch {
	case !p.had:
		return false
	case gap > lease/2, end > 0 && now >= end:
		return true
	case end > 0:
		p.gap, p.end = gap, end
	}
	return false
}

// look returns the length of the last pause and true if that pause has cost the lease: the voided lease
// would have ended by now, and the node has no new one. leased reports whether the node has a lease now.
// look returns true only once for each pause.
func (p *pause) look(now time.Duration, leased bool) (gap time.Duration, lost bool) {
	p.had = p.had || leased
	switch {
	case p.gap == 0:
		return 0, false
	case leased:
		p.gap = 0
		return 0, false
	case now < p.end:
		return 0, false
	}
	gap, p.gap = p.gap, 0
	return gap, true
}
