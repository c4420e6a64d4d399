package history

import (
	"slices"
	"time"
)

// overlapExcuse is the reason why the checker permits that a run of a previous owner overlaps the runs of
// the next owner. Zero means that the overlap is not permitted, so a guarantee is broken.
type overlapExcuse int

const (
	// nodePausedOrDead means that the run overlaps a pause of its node, or the death of its node.
	nodePausedOrDead overlapExcuse = iota + 1
	// connectionReset means that the run overlaps a fault of kind Reset.
	connectionReset
	// abortNoticedLate means that the node had aborted the run, and the app had not noticed yet.
	abortNoticedLate
)

// findOverlapExcuse returns why staleRun is permitted, a run of a previous owner during or after the first
// run of the next owner. Zero means that it is not permitted. The time of that first run of the next
// owner is called the takeover.
//
// No fault permits a takeover that is too early for a node that has not released its shards
// (Rules.earliestTakeover).
func (s *shardChecker) findOverlapExcuse(staleRun Run) overlapExcuse {
	return s.findTakeoverExcuse(staleRun, s.takenOverAt(staleRun))
}

// findTakeoverExcuse returns why staleRun is permitted although another node took over its shard at a time.
func (oc *ownershipChecker) findTakeoverExcuse(staleRun Run, takeoverAt int64) overlapExcuse {
	for i := range oc.faults.all {
		fault := &oc.faults.all[i]
		if !fault.affects(staleRun.App) || takeoverAt < fault.takeoverAllowedFrom() {
			continue
		}
		var excuse overlapExcuse
		switch {
		case fault.Kind == Reset:
			excuse = oc.resetExcuse(fault, staleRun, takeoverAt)
		case fault.Kind == Paused:
			excuse = oc.pauseExcuse(fault, staleRun, takeoverAt)
		case fault.Kind == AppHung:
			excuse = oc.hungExcuse(fault, staleRun)
		case fault.isCrash():
			excuse = oc.crashExcuse(fault, staleRun, takeoverAt)
		}
		if excuse != 0 {
			return excuse
		}
	}
	return oc.lateAbortExcuse(staleRun, takeoverAt)
}

// lateAbortExcuse permits a run that its node had aborted before the takeover. The app may notice the
// abort up to MaxAbortNotice later. The abort must have a permitted cause (mayHaveAborted).
func (oc *ownershipChecker) lateAbortExcuse(staleRun Run, takeoverAt int64) overlapExcuse {
	if staleRun.fromAdmission || !staleRun.Aborted || staleRun.Start > takeoverAt {
		return 0
	}
	noticedInTime := staleRun.endsBefore(takeoverAt + int64(oc.rules.MaxAbortNotice))
	if noticedInTime && oc.mayHaveAborted(staleRun, takeoverAt) {
		return abortNoticedLate
	}
	return 0
}

// pauseExcuse permits a run because its node was paused. There are two cases:
//   - The run began before the takeover, and the takeover happened during the pause. After the pause
//     the node aborts the run before anything else, as soon as it gets a processor.
//   - The pause interrupted the node between the check of the lease and the write to the app. Such a
//     run may begin up to Rules.WakeTime after the pause.
func (oc *ownershipChecker) pauseExcuse(fault *Fault, staleRun Run, takeoverAt int64) overlapExcuse {
	if staleRun.fromAdmission || !oc.isTakeoverDue(fault, staleRun, takeoverAt) {
		return 0
	}
	pauseEnd := fault.end()
	noticeTime, wakeTime := oc.waits.maxNoticeTime(staleRun.App, pauseEnd, staleRun.end()), int64(oc.rules.WakeTime)

	wasInFlight := staleRun.Start <= takeoverAt && staleRun.Start < pauseEnd
	if wasInFlight && staleRun.endsBefore(addDuration(pauseEnd, noticeTime)) {
		return nodePausedOrDead
	}
	// The node admitted the request before the pause, and sent it to the app after the pause.
	sentAfterPause := pauseEnd <= staleRun.Start && staleRun.Start < addDuration(pauseEnd, wakeTime)
	if sentAfterPause && staleRun.endsBefore(addDuration(pauseEnd, wakeTime+noticeTime)) {
		return nodePausedOrDead
	}
	return 0
}

// hungExcuse returns the excuse of a run in an app that hung. The app may begin a request after that which
// it had received before, although the node has closed the connection.
func (oc *ownershipChecker) hungExcuse(fault *Fault, staleRun Run) overlapExcuse {
	noticeTime := int64(oc.rules.MaxAbortNotice)
	beganInTime := staleRun.Start < addDuration(fault.end(), noticeTime)
	if !staleRun.fromAdmission && beganInTime && staleRun.end() >= fault.From && staleRun.endsBefore(addDuration(fault.end(), 2*noticeTime)) {
		return nodePausedOrDead
	}
	return 0
}

// crashExcuse permits a run because its node died. The run must have begun before the
// takeover. With --takeover immediate, which does not wait for the end of the lease, requests that were
// already on the way to the app are also permitted.
func (oc *ownershipChecker) crashExcuse(fault *Fault, staleRun Run, takeoverAt int64) overlapExcuse {
	if staleRun.fromAdmission || !oc.isTakeoverDue(fault, staleRun, takeoverAt) {
		return 0
	}
	deadBy, noticeTime := oc.latestRunTime(fault), int64(oc.rules.MaxAbortNotice)

	wasInFlight := staleRun.Start <= takeoverAt && staleRun.Start < deadBy
	if wasInFlight && staleRun.endsBefore(addDuration(deadBy, noticeTime)) {
		return nodePausedOrDead
	}
	wasOnItsWay := fault.From <= staleRun.Start && staleRun.Start < deadBy+noticeTime
	if oc.rules.Takeover == "immediate" && wasOnItsWay && staleRun.endsBefore(deadBy+2*noticeTime) {
		return abortNoticedLate
	}
	return 0
}

// latestRunTime returns the latest time at which a dying process may have run requests, because its
// time of death is not known exactly. A process that was killed, or that closed its connections, may
// run them for up to MaxAbortNotice, plus the time that its threads waited for processors. A process
// that exits because of a disk fault may run them until it has certainly exited.
func (oc *ownershipChecker) latestRunTime(fault *Fault) int64 {
	exitStart := fault.takeoverAllowedFrom()
	limit := exitStart + int64(oc.rules.MaxAbortNotice)
	if fault.Kind != Killed || fault.LatestExit <= limit {
		return fault.LatestExit
	}
	lastPossibleWait := min(fault.LatestExit, limit+int64(oc.rules.MaxCPUWait))
	return min(fault.LatestExit, limit+oc.waits.waitTime(fault.Node, exitStart, lastPossibleWait))
}

// isTakeoverDue reports whether the takeover from a paused or dead node was not too early. A
// takeover may happen immediately after a new process of the node has started, because the
// old process has then certainly exited. Otherwise the leader must wait. The wait
// is longer for a paused node, without crash evidence, than for a dead node or after a
// forged refusal.
func (oc *ownershipChecker) isTakeoverDue(fault *Fault, staleRun Run, takeoverAt int64) bool {
	newProcessRuns := fault.isCrash() && fault.Until != 0 && fault.Until <= takeoverAt
	if newProcessRuns {
		return true
	}
	mayHoldLeaseUntil := fault.From // A paused node may hold a lease when the pause starts.
	if fault.isCrash() {
		mayHoldLeaseUntil = fault.LatestExit
	}
	// A run that the app begins after the death of the node was sent before the death.
	lastLeased, ok := oc.allRuns.lastLease(staleRun.App, min(takeoverAt, mayHoldLeaseUntil))
	hasEvidence := fault.isCrash() || oc.faults.wasResetBefore(staleRun.App, takeoverAt)
	return !ok || takeoverAt >= oc.rules.earliestTakeover(lastLeased, hasEvidence)
}

// resetExcuse permits a run because of a forged refusal, which looks like the exit of a node.
//   - With --takeover timeout it permits no run, because nodes ignore refusals.
//   - With --takeover lease, it permits runs that began before the takeover. The old owner gets no
//     lease, and aborts them within DeadAfter of the takeover.
//   - With --takeover immediate, it also permits runs that the old owner admits until its lease ends.
func (oc *ownershipChecker) resetExcuse(fault *Fault, staleRun Run, takeoverAt int64) overlapExcuse {
	isImmediate := oc.rules.Takeover == "immediate"
	if !isImmediate && oc.rules.Takeover != "lease" {
		return 0
	}
	noticeTime := int64(oc.rules.MaxAbortNotice)
	latestTakeover := min(takeoverAt, addDuration(fault.end(), noticeTime)) // because of this fault
	// An immediate takeover happens while the lease of the old owner lasts, and its apps may notice the end later.
	leaseNoticedBy := latestTakeover + oc.rules.longestByAnyClock(oc.rules.Lease) + noticeTime
	if staleRun.fromAdmission {
		if isImmediate && staleRun.endsBefore(leaseNoticedBy) {
			return connectionReset
		}
		return 0
	}
	lastLeased, ok := oc.allRuns.lastLease(staleRun.App, takeoverAt)
	tooEarly := ok && takeoverAt < oc.rules.earliestTakeover(lastLeased, true)
	if !isImmediate && tooEarly {
		return 0
	}
	wasInFlight := staleRun.Start <= takeoverAt && staleRun.Start < fault.end()
	beganUnderLease := isImmediate && staleRun.Start < leaseNoticedBy
	abortedBy := oc.latestAbort(staleRun, latestTakeover+int64(oc.rules.DeadAfter))
	if (wasInFlight || beganUnderLease) && staleRun.endsBefore(abortedBy) {
		return connectionReset
	}
	return 0
}

// latestAbort returns the latest time at which a node aborts a run without a lease, if it
// would do so by limit. A node that is paused before limit aborts the run first when it
// continues.
func (oc *ownershipChecker) latestAbort(staleRun Run, limit int64) int64 {
	latest := limit
	for i := range oc.faults.all {
		fault := &oc.faults.all[i]
		if fault.Kind == Paused && fault.Node == staleRun.App && fault.From < limit {
			noticeTime := oc.waits.maxNoticeTime(staleRun.App, fault.end(), staleRun.end())
			latest = max(latest, addDuration(fault.end(), noticeTime))
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
func (oc *ownershipChecker) mayHaveAborted(staleRun Run, takeoverAt int64) bool {
	drainTimeExpired := takeoverAt-staleRun.Start >= oc.rules.shortestByAnyClock(oc.drainTimeout(staleRun))
	if drainTimeExpired {
		return true
	}
	ingress := oc.ingressNodes[staleRun.ID]
	latestStart := takeoverAt + int64(oc.rules.MaxAbortNotice)
	return slices.ContainsFunc(oc.faults.all, func(fault Fault) bool {
		if fault.Kind == Terminated || fault.Kind == AppDown {
			return false
		}
		affectsRun := fault.affects(staleRun.App) || ingress != "" && fault.affects(ingress)
		if !affectsRun || fault.takeoverAllowedFrom() > latestStart {
			return false
		}
		isOver := fault.end() < staleRun.Start || addDuration(fault.end(), int64(oc.rules.DeadAfter)) < takeoverAt
		return !isOver
	})
}

// drainTimeout returns how long a node lets a run continue after its shard has to move.
func (oc *ownershipChecker) drainTimeout(run Run) time.Duration {
	switch {
	case run.Resumes:
		return 0
	case run.Stream:
		return min(oc.rules.DrainTimeout, oc.rules.StreamGrace)
	}
	return oc.rules.DrainTimeout
}
