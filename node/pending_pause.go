package node

import "time"

// pendingPause decides whether a pause of the process must be reported. A pause is a period in which the process
// did not run, or by which its clock jumped. Each pause voids the lease, but most pauses are harmless, because the
// node gets a new lease before the voided one would have ended. The zero value is ready for use.
type pendingPause struct {
	hadLease bool // the process has had a lease

	// The pause that may still cost the lease.
	length         time.Duration // zero means that there is no such pause
	voidedLeaseEnd time.Duration // time of the clock at which the voided lease would have ended
}

// recordPause records a pause that ends now. leaseDuration is the duration of each lease. voidedLeaseEnd is
// the time at which the lease that the pause has voided would have ended; zero means that there was none.
//
// It returns true if the caller must report the pause now: the pause is longer than half a lease, or the lease
// ended during the pause. Before the first lease it returns false, because the node had no lease to lose.
func (p *pendingPause) recordPause(now, length, leaseDuration, voidedLeaseEnd time.Duration) (mustReport bool) {
	hasVoidedLease := voidedLeaseEnd > 0
	p.hadLease = p.hadLease || hasVoidedLease
	p.length = 0
	if !p.hadLease {
		return false
	}
	leaseEndedDuringPause := hasVoidedLease && now >= voidedLeaseEnd
	if length > leaseDuration/2 || leaseEndedDuringPause {
		return true
	}
	if hasVoidedLease {
		p.length, p.voidedLeaseEnd = length, voidedLeaseEnd // poll decides
	}
	return false
}

// poll returns the length of the last pause. lostLease reports whether the node has lost its lease because of that
// pause: the voided lease would have ended by now, and the node has no new one. hasLease is whether the node has a
// lease now. poll returns true only once for each pause.
func (p *pendingPause) poll(now time.Duration, hasLease bool) (length time.Duration, lostLease bool) {
	p.hadLease = p.hadLease || hasLease
	if hasLease {
		p.length = 0
	}
	if p.length == 0 || now < p.voidedLeaseEnd {
		return 0, false
	}
	length, p.length = p.length, 0
	return length, true
}
