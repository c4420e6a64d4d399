package history

// excuse says why a run beside those of a later owner breaks no promise.
type excuse int

const (
	// stopped: the run straddles a stop, or the death of its node.
	stopped excuse = iota + 1
	// forged: the run straddles a Reset.
	forged
	// noticedLate: its node had given it up, and its app had yet to notice.
	noticedLate
)

// excuse judges a run of an owner that another one replaced: whether it may have
// been under way when, or after, the other began. Zero: it may not.
//
// What had begun before the other's first run
//   - may go on while its node is stopped, if the shard was taken meanwhile. A node
//     that is continued cuts it before anything else, once it has a processor;
//   - may go on after a forged refusal, unless the takeover is timeout: until the node,
//     which has no lease, cuts it, which is less than DeadAfter after the taking, or first
//     thing as it goes on, if it is stopped before that;
//   - may be cut, and its app notice late, if something had been done to its node or
//     to the one that had forwarded it, or if it had run for DrainTimeout at least.
//
// Neither holds if the shard was taken sooner than it may be from a node that has not
// given it back: Rules.soonest, from the last time on that this node showed a lease.
//
// What began after it never may, but for --takeover immediate, which takes a refusal at
// its word while leases last: until the lease of the node ends if it was forged,
// and while what the node had sent to its app is on its way if it was killed. And
// what a node was stopped in the middle of sending may, for Rules.Wake.
func (s *shard) excuse(old Run) excuse {
	taken := s.taken(old)
	for i := range s.h.Faults {
		f := &s.h.Faults[i]
		if !f.touches(old.App) || taken < f.gives() {
			continue
		}
		var e excuse
		switch {
		case f.Kind == Reset:
			e = s.atReset(f, old, taken)
		case f.Kind == Stopped || f.dead():
			e = s.atStop(f, old, taken)
		}
		if e != 0 {
			return e
		}
	}
	if !old.asked && old.Start <= taken && old.Cut && old.endsBefore(taken+int64(s.rules.CutNotice)) && s.given(old, taken) {
		return noticedLate
	}
	return 0
}

// atStop excuses a run by a stop of its node, or its death.
func (s *shard) atStop(f *Fault, old Run, taken int64) excuse {
	notice, wake := int64(s.rules.CutNotice), int64(s.rules.Wake)
	// A stop ends as the process goes on, or as it is certainly dead.
	over := f.until()
	if f.dead() {
		over = s.deadBy(f)
	} else {
		notice = s.notice(old.App, over, old.end())
	}
	switch {
	case old.asked || !s.due(f, old, taken):
		return 0
	case old.Start <= taken && old.Start < over && old.endsBefore(after(over, notice)):
		return stopped
	case f.Kind == Stopped && old.Start < after(over, wake) && old.Start >= over && old.endsBefore(after(over, wake+notice)):
		return stopped
	case s.rules.Takeover == "immediate" && f.dead() && old.Start >= f.From && old.Start < over+notice && old.endsBefore(over+2*notice):
		return noticedLate
	}
	return 0
}

// deadBy is until when what a process had begun may run because nobody knows when it died.
// One that was killed, or cut its connections, has CutNotice for that, and what its threads
// waited for processors meanwhile. A bad disk may take its time.
func (s *shard) deadBy(f *Fault) int64 {
	gone := f.gives()
	most := gone + int64(s.rules.CutNotice)
	if f.Kind != Killed || f.By <= most {
		return f.By
	}
	return min(f.By, most+s.starved(f.Node, gone, min(f.By, most+int64(s.rules.Starved))))
}

// due tells whether a shard may have been taken at that time from a node that was
// stopped or had died: as soon as its successor is heard, or after what the leader
// waits for without crash evidence if it stood still, with it if it had died or
// evidence was forged.
func (s *shard) due(f *Fault, old Run, taken int64) bool {
	if f.dead() && f.Until != 0 && f.Until <= taken {
		return true
	}
	gone, evidence := f.From, f.dead()
	if evidence {
		gone = f.By
	}
	for i := range s.h.Faults {
		other := &s.h.Faults[i]
		evidence = evidence || other.Kind == Reset && other.touches(old.App) && other.From <= taken
	}
	// What its app begins after its death, it had sent before.
	leased, ok := s.leased(old.App, min(taken, gone))
	return !ok || taken >= s.rules.soonest(leased, evidence)
}

// atReset excuses a run by a forged refusal.
func (s *shard) atReset(f *Fault, old Run, taken int64) excuse {
	immediate := s.rules.Takeover == "immediate"
	if !immediate && s.rules.Takeover != "lease" {
		return 0
	}
	notice := int64(s.rules.CutNotice)
	change := min(taken, after(f.until(), notice)) // of owners, at the latest
	if old.asked {
		if immediate && old.endsBefore(change+s.rules.most(s.rules.Lease)+notice) {
			return forged
		}
		return 0
	}
	if leased, ok := s.leased(old.App, taken); !immediate && ok && taken < s.rules.soonest(leased, true) {
		return 0
	}
	began := old.Start <= taken && old.Start < f.until() || immediate && old.Start < change+s.rules.most(s.rules.Lease)+notice
	if began && old.endsBefore(s.cutBy(old, change+int64(s.rules.DeadAfter))) {
		return forged
	}
	return 0
}

// cutBy is when a run without a lease is cut at the latest, by a node that would do so by
// some time: as it goes on, if it is stopped before that.
func (s *shard) cutBy(old Run, most int64) int64 {
	late := most
	for i := range s.h.Faults {
		if f := &s.h.Faults[i]; f.Kind == Stopped && f.Node == old.App && f.From < most {
			late = max(late, after(f.until(), s.notice(old.App, f.until(), old.end())))
		}
	}
	return late
}

// given tells whether its node may have given up a run that was cut, just before
// another node began: a drain that had lasted for its time, or the grace of a stream
// that had, which one that goes on elsewhere does not have, or something that was
// done to it, or to the node that had forwarded the run. Without one of these an
// app that is cut off while its successor begins was cut off too late: its node
// had acknowledged too early.
func (s *shard) given(old Run, taken int64) bool {
	drain := s.rules.DrainTimeout
	switch {
	case old.Resumes:
		drain = 0
	case old.Stream:
		drain = min(drain, s.rules.StreamGrace)
	}
	if taken-old.Start >= s.rules.least(drain) {
		return true
	}
	ingress, notice := s.ingress[old.ID], int64(s.rules.CutNotice)
	for i := range s.h.Faults {
		f := &s.h.Faults[i]
		if f.Kind == Left || f.Kind == NoApp {
			continue
		}
		if (f.touches(old.App) || ingress != "" && f.touches(ingress)) && f.gives() <= taken+notice && old.Start <= f.until() && taken <= after(f.until(), int64(s.rules.DeadAfter)) {
			return true
		}
	}
	return false
}
