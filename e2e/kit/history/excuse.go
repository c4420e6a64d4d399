package history

// overlapExcuse is the reason why a run that overlaps the runs of a later owner breaks no
// guarantee.
type overlapExcuse int

const (
	// nodePausedOrDead means that the run overlaps a pause of its node, or the death of its node.
	nodePausedOrDead overlapExcuse = iota + 1
	// connectionReset means that the run overlaps a fault of kind Reset.
	connectionReset
	// abortNoticedLate means that the node had aborted the run, and the app had not noticed yet.
	abortNoticedLate
)

// findOverlapExcuse returns the excuse for staleRun, a run of a previous owner during or after the
// first run of the next owner. Zero means that there is no excuse.
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
//   - The node was paused while it sent the request. This excuses runs for Rules.WakeTime.
func (s *shardChecker) findOverlapExcuse(staleRun Run) overlapExcuse {
	takeoverAt := s.takenOverAt(staleRun)
	for i := range s.history.Faults {
		fault := &s.history.Faults[i]
		if !fault.affects(staleRun.App) || takeoverAt < fault.takeoverAllowedFrom() {
			continue
		}
		var excuse overlapExcuse
		switch {
		case fault.Kind == Reset:
			excuse = s.resetExcuse(fault, staleRun, takeoverAt)
		case fault.Kind == Paused || fault.isCrash():
			excuse = s.pauseExcuse(fault, staleRun, takeoverAt)
		}
		if excuse != 0 {
			return excuse
		}
	}
	if !staleRun.fromAdmission && staleRun.Start <= takeoverAt && staleRun.Aborted && staleRun.endsBefore(takeoverAt+int64(s.rules.MaxAbortNotice)) && s.mayHaveAborted(staleRun, takeoverAt) {
		return abortNoticedLate
	}
	return 0
}

// pauseExcuse returns the excuse of a run by a pause of its node, or by its death.
func (s *shardChecker) pauseExcuse(fault *Fault, staleRun Run, takeoverAt int64) overlapExcuse {
	noticeTime, wakeTime := int64(s.rules.MaxAbortNotice), int64(s.rules.WakeTime)
	// A pause ends when the process continues, or when it is certainly dead.
	end := fault.end()
	if fault.isCrash() {
		end = s.latestRunTime(fault)
	} else {
		noticeTime = s.maxNoticeTime(staleRun.App, end, staleRun.end())
	}
	switch {
	case staleRun.fromAdmission || !s.isTakeoverDue(fault, staleRun, takeoverAt):
		return 0
	case staleRun.Start <= takeoverAt && staleRun.Start < end && staleRun.endsBefore(addDuration(end, noticeTime)):
		return nodePausedOrDead
	case fault.Kind == Paused && staleRun.Start < addDuration(end, wakeTime) && staleRun.Start >= end && staleRun.endsBefore(addDuration(end, wakeTime+noticeTime)):
		return nodePausedOrDead
	case s.rules.Takeover == "immediate" && fault.isCrash() && staleRun.Start >= fault.From && staleRun.Start < end+noticeTime && staleRun.endsBefore(end+2*noticeTime):
		return abortNoticedLate
	}
	return 0
}

// latestRunTime returns the latest time at which a dying process may have run requests, because its
// time of death is not known exactly. A process that was killed, or that closed its connections, may
// run them for up to MaxAbortNotice, plus the time that its threads waited for processors. A process
// that exits because of a disk fault may run them until it has certainly exited.
func (s *shardChecker) latestRunTime(fault *Fault) int64 {
	exitStart := fault.takeoverAllowedFrom()
	limit := exitStart + int64(s.rules.MaxAbortNotice)
	if fault.Kind != Killed || fault.ExitedBy <= limit {
		return fault.ExitedBy
	}
	return min(fault.ExitedBy, limit+s.cpuWaitTime(fault.Node, exitStart, min(fault.ExitedBy, limit+int64(s.rules.MaxCPUWait))))
}

// isTakeoverDue reports whether the takeover from a paused or dead node was not too early. A
// takeover may happen immediately after a new process of the node has started, because the
// leader then knows that the old one has exited. Otherwise the leader must wait. The wait
// is longer for a paused node, without crash evidence, than for a dead node or after a
// forged refusal.
func (s *shardChecker) isTakeoverDue(fault *Fault, staleRun Run, takeoverAt int64) bool {
	if fault.isCrash() && fault.Until != 0 && fault.Until <= takeoverAt {
		return true
	}
	leaseEndsBy, hasEvidence := fault.From, fault.isCrash() // a paused node may hold a lease when the pause starts
	if hasEvidence {
		leaseEndsBy = fault.ExitedBy
	}
	for i := range s.history.Faults {
		other := &s.history.Faults[i]
		hasEvidence = hasEvidence || other.Kind == Reset && other.affects(staleRun.App) && other.From <= takeoverAt
	}
	// A run that the app begins after the death of the node was sent before the death.
	lastLeased, ok := s.lastLease(staleRun.App, min(takeoverAt, leaseEndsBy))
	return !ok || takeoverAt >= s.rules.earliestTakeover(lastLeased, hasEvidence)
}

// resetExcuse returns the excuse of a run by a forged refusal. With --takeover timeout there is none,
// because nodes ignore refusals.
func (s *shardChecker) resetExcuse(fault *Fault, staleRun Run, takeoverAt int64) overlapExcuse {
	immediate := s.rules.Takeover == "immediate"
	if !immediate && s.rules.Takeover != "lease" {
		return 0
	}
	noticeTime := int64(s.rules.MaxAbortNotice)
	latestTakeover := min(takeoverAt, addDuration(fault.end(), noticeTime)) // the latest takeover because of the fault
	if staleRun.fromAdmission {
		if immediate && staleRun.endsBefore(latestTakeover+s.rules.longestByAnyClock(s.rules.Lease)+noticeTime) {
			return connectionReset
		}
		return 0
	}
	if lastLeased, ok := s.lastLease(staleRun.App, takeoverAt); !immediate && ok && takeoverAt < s.rules.earliestTakeover(lastLeased, true) {
		return 0
	}
	mayHaveBegun := staleRun.Start <= takeoverAt && staleRun.Start < fault.end() || immediate && staleRun.Start < latestTakeover+s.rules.longestByAnyClock(s.rules.Lease)+noticeTime
	if mayHaveBegun && staleRun.endsBefore(s.latestAbort(staleRun, latestTakeover+int64(s.rules.DeadAfter))) {
		return connectionReset
	}
	return 0
}

// latestAbort returns the latest time at which a node aborts a run without a lease, if it
// would do so by limit. A node that is paused before limit aborts the run when it
// continues.
func (s *shardChecker) latestAbort(staleRun Run, limit int64) int64 {
	latest := limit
	for i := range s.history.Faults {
		if fault := &s.history.Faults[i]; fault.Kind == Paused && fault.Node == staleRun.App && fault.From < limit {
			latest = max(latest, addDuration(fault.end(), s.maxNoticeTime(staleRun.App, fault.end(), staleRun.end())))
		}
	}
	return latest
}

// mayHaveAborted reports whether the node may have aborted a run just before another node
// began. Permitted causes are:
//   - a drain that lasted for DrainTimeout
//   - the grace period of a stream; a resumable stream has none
//   - a fault of the node, or of the node that forwarded the run
//
// If there is no such cause and the app lost its request only when the next owner began,
// its node acknowledged the map too early: before the app had stopped.
func (s *shardChecker) mayHaveAborted(staleRun Run, takeoverAt int64) bool {
	drain := s.rules.DrainTimeout
	switch {
	case staleRun.Resumes:
		drain = 0
	case staleRun.Stream:
		drain = min(drain, s.rules.StreamGrace)
	}
	if takeoverAt-staleRun.Start >= s.rules.shortestByAnyClock(drain) {
		return true
	}
	ingress, notice := s.ingressNodes[staleRun.ID], int64(s.rules.MaxAbortNotice)
	for i := range s.history.Faults {
		fault := &s.history.Faults[i]
		if fault.Kind == Terminated || fault.Kind == AppDown {
			continue
		}
		if (fault.affects(staleRun.App) || ingress != "" && fault.affects(ingress)) && fault.takeoverAllowedFrom() <= takeoverAt+notice && staleRun.Start <= fault.end() && takeoverAt <= addDuration(fault.end(), int64(s.rules.DeadAfter)) {
			return true
		}
	}
	return false
}
