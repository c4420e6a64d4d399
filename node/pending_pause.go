package node

import "time"

// pendingPause decides whether a pause of the process must be reported. A pause is a period in which the process
// did not run, or by which its clock jumped. Each pause voids the lease, but most pauses do no harm,
// because the lease is renewed before it would have ended. The zero value is ready for use.
type pendingPause struct {
	// hadLease means that the process has had a lease.
	hadLease bool
	length   time.Duration // length of a pause that may still cost the lease; zero means none
	leaseEnd time.Duration // time at which the voided lease would have ended
}

// begin records a pause of length gap that ends now. lease is the length of a lease, and end is the end of
// the lease that the pause has voided; zero means no lease. began returns true if the pause must be
// reported now, because it is longer than half a lease or the lease ended during it. Before the first
// lease it returns false, because the node had no lease to lose.
func (p *pendingPause) begin(now, gap, lease, end time.Duration) bool {
	p.hadLease = p.hadLease || end > 0
	p.length = 0
	switch {
	case !p.hadLease:
		return false
	case gap > lease/2, end > 0 && now >= end:
		return true
	case end > 0:
		p.length, p.leaseEnd = gap, end
	}
	return false
}

// poll returns the length of the last pause and true if that pause has cost the lease: the voided lease
// would have ended by now, and the node has no new one. leased reports whether the node has a lease now.
// look returns true only once for each pause.
func (p *pendingPause) poll(now time.Duration, leased bool) (gap time.Duration, lost bool) {
	p.hadLease = p.hadLease || leased
	switch {
	case p.length == 0:
		return 0, false
	case leased:
		p.length = 0
		return 0, false
	case now < p.leaseEnd:
		return 0, false
	}
	gap, p.length = p.length, 0
	return gap, true
}
