package node

import "time"

// pause is a time in which the process did not run, or by which its clock jumped, and that
// voided its lease. Most of them harm nothing: the lease is renewed before it would have ended.
// The zero value is ready for use.
type pause struct {
	// had is true once the process has had a lease.
	had bool
	gap time.Duration // zero: there is none to judge
	end time.Duration // when the voided lease would have ended
}

// began takes a pause of gap that ends now, in which a lease until end was in force (zero:
// none). It reports whether the pause is to be told of at once: it is longer than half a lease,
// or the lease ended within it. Before the first lease nothing is lost.
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

// look reports that the pause has cost the lease: it would have ended by now and was not
// renewed. leased is whether the node has a lease now.
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
