package history

// excuse is the reason why a run that overlaps the runs of a later owner breaks no
// guarantee.
type excuse int

const (
	// pausedOrDead means that the run overlaps a pause of its node, or the death of its node.
	pausedOrDead excuse = iota + 1
	// forgedReset means that the run overlaps a Reset.
	forgedReset
	// noticedLate means that the node had aborted the run, and the app had not noticed yet.
	noticedLate
)

// excuseFor returns the excuse for a run of an owner that another node replaced and that
// ran during, or after, the first run of the next owner. Zero means that there is none.
//
// A run that began before the first run of the next owner has an excuse in these cases:
//   - Its node is paused, and the takeover happened meanwhile. After the pause the node
//     aborts the run before anything else, as soon as it gets a processor.
//   - A refusal was forged, and the takeover is not timeout. The node has no lease and
//     aborts the run within DeadAfter of the takeover. A node that is paused before that
//     aborts it first when it continues.
//   - The run was aborted, and its app noticed late. There must be a fault of its node or of
//     the node that forwarded it, or the run must have lasted at least DrainTimeout.
//
// There is no excuse if the takeover was earlier than permitted for a node that has not
// released its shards: Rules.earliestTakeover, counted from the last time at which the
// node held a lease.
//
// A run that began after the first run of the next owner has an excuse only in these
// cases:
//   - --takeover immediate accepts a refusal as proof while leases last. A forged refusal
//     excuses runs until the lease of the node ends. A kill excuses requests that were
//     already on the way to the app.
//   - The node was paused while it sent the request. This excuses runs for Rules.Wake.
func (s *shardChecker) excuseFor(old Run) excuse {
	taken := s.takenOverAt(old)
	for i := range s.h.Faults {
		f := &s.h.Faults[i]
		if !f.affects(old.App) || taken < f.yieldsFrom() {
			continue
		}
		var e excuse
		switch {
		case f.Kind == Reset:
			e = s.excuseAtReset(f, old, taken)
		case f.Kind == Paused || f.isCrash():
			e = s.excuseAtPause(f, old, taken)
		}
		if e != 0 {
			return e
		}
	}
	if !old.fromAdmission && old.Start <= taken && old.Aborted && old.endsBefore(taken+int64(s.rules.CutNotice)) && s.mayHaveAborted(old, taken) {
		return noticedLate
	}
	return 0
}

// excuseAtPause returns the excuse of a run by a pause of its node, or by its death.
func (s *shardChecker) excuseAtPause(f *Fault, old Run, taken int64) excuse {
	notice, wake := int64(s.rules.CutNotice), int64(s.rules.Wake)
	// A pause ends when the process continues, or when it is certainly dead.
	over := f.end()
	if f.isCrash() {
		over = s.runsUntil(f)
	} else {
		notice = s.noticeTime(old.App, over, old.end())
	}
	switch {
	case old.fromAdmission || !s.takeoverDue(f, old, taken):
		return 0
	case old.Start <= taken && old.Start < over && old.endsBefore(addTime(over, notice)):
		return pausedOrDead
	case f.Kind == Paused && old.Start < addTime(over, wake) && old.Start >= over && old.endsBefore(addTime(over, wake+notice)):
		return pausedOrDead
	case s.rules.Takeover == "immediate" && f.isCrash() && old.Start >= f.From && old.Start < over+notice && old.endsBefore(over+2*notice):
		return noticedLate
	}
	return 0
}

// runsUntil returns the time until which a process may have run requests, since its time
// of death is not known exactly. A process that was killed, or closed its connections,
// has CutNotice for that, plus the time that its threads waited for processors. A disk
// fault has no such limit.
func (s *shardChecker) runsUntil(f *Fault) int64 {
	gone := f.yieldsFrom()
	limit := gone + int64(s.rules.CutNotice)
	if f.Kind != Killed || f.By <= limit {
		return f.By
	}
	return min(f.By, limit+s.starvedTime(f.Node, gone, min(f.By, limit+int64(s.rules.Starved))))
}

// takeoverDue reports whether the takeover from a paused or dead node was late enough. A
// takeover may happen immediately after a new process of the node has started, because the
// leader then knows that the old one has exited. Otherwise the leader must wait. The wait
// is longer for a paused node, without crash evidence, than for a dead node or after a
// forged refusal.
func (s *shardChecker) takeoverDue(f *Fault, old Run, taken int64) bool {
	if f.isCrash() && f.Until != 0 && f.Until <= taken {
		return true
	}
	gone, evidence := f.From, f.isCrash()
	if evidence {
		gone = f.By
	}
	for i := range s.h.Faults {
		other := &s.h.Faults[i]
		evidence = evidence || other.Kind == Reset && other.affects(old.App) && other.From <= taken
	}
	// A run that the app begins after the death of the node was sent before the death.
	leased, ok := s.lastLease(old.App, min(taken, gone))
	return !ok || taken >= s.rules.earliestTakeover(leased, evidence)
}

// excuseAtReset returns the excuse of a run by a forged refusal.
func (s *shardChecker) excuseAtReset(f *Fault, old Run, taken int64) excuse {
	immediate := s.rules.Takeover == "immediate"
	if !immediate && s.rules.Takeover != "lease" {
		return 0
	}
	notice := int64(s.rules.CutNotice)
	change := min(taken, addTime(f.end(), notice)) // the latest change of owners
	if old.fromAdmission {
		if immediate && old.endsBefore(change+s.rules.longest(s.rules.Lease)+notice) {
			return forgedReset
		}
		return 0
	}
	if leased, ok := s.lastLease(old.App, taken); !immediate && ok && taken < s.rules.earliestTakeover(leased, true) {
		return 0
	}
	began := old.Start <= taken && old.Start < f.end() || immediate && old.Start < change+s.rules.longest(s.rules.Lease)+notice
	if began && old.endsBefore(s.abortedBy(old, change+int64(s.rules.DeadAfter))) {
		return forgedReset
	}
	return 0
}

// abortedBy returns the latest time at which a node aborts a run without a lease, if it
// would do so by limit. A node that is paused before limit aborts the run when it
// continues.
func (s *shardChecker) abortedBy(old Run, limit int64) int64 {
	late := limit
	for i := range s.h.Faults {
		if f := &s.h.Faults[i]; f.Kind == Paused && f.Node == old.App && f.From < limit {
			late = max(late, addTime(f.end(), s.noticeTime(old.App, f.end(), old.end())))
		}
	}
	return late
}

// mayHaveAborted reports whether the node may have aborted a run just before another node
// began. Permitted causes are:
//   - a drain that lasted for DrainTimeout
//   - the grace period of a stream; a resumable stream has none
//   - a fault of the node, or of the node that forwarded the run
//
// If there is no such cause and the app lost its request only when the next owner began,
// its node acknowledged the map too early: before the app had stopped.
func (s *shardChecker) mayHaveAborted(old Run, taken int64) bool {
	drain := s.rules.DrainTimeout
	switch {
	case old.Resumes:
		drain = 0
	case old.Stream:
		drain = min(drain, s.rules.StreamGrace)
	}
	if taken-old.Start >= s.rules.shortest(drain) {
		return true
	}
	ingress, notice := s.ingress[old.ID], int64(s.rules.CutNotice)
	for i := range s.h.Faults {
		f := &s.h.Faults[i]
		if f.Kind == Terminated || f.Kind == AppDown {
			continue
		}
		if (f.affects(old.App) || ingress != "" && f.affects(ingress)) && f.yieldsFrom() <= taken+notice && old.Start <= f.end() && taken <= addTime(f.end(), int64(s.rules.DeadAfter)) {
			return true
		}
	}
	return false
}
