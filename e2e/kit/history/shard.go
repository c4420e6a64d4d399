package history

import (
	"slices"
	"time"
)

// ownershipChecker checks that a shard has one owner at a time.
type ownershipChecker struct {
	rules   *Rules
	report  *Report
	allRuns *runIndex
	faults  *faultTimeline
	waits   *cpuWaits
	// ingressNodes contains the node that received the last attempt of each request, by request ID.
	ingressNodes map[string]string
	// excusedOverlaps contains the IDs of requests that ran at the same time as a run of another
	// owner for an excused reason. The checks fill it.
	excusedOverlaps map[string]bool
}

// check checks the runs and admissions of each shard against each other.
func (oc *ownershipChecker) check(admissions []Admission) {
	all := make(map[uint32][]Run, len(oc.allRuns.byShard))
	for shard, runs := range oc.allRuns.byShard {
		all[shard] = slices.Clone(runs)
	}
	for i := range admissions {
		run := admissions[i].asRun()
		all[run.Shard] = append(all[run.Shard], run)
	}
	for _, runs := range all {
		oneShard := &shardChecker{ownershipChecker: oc, runs: runs}
		oneShard.check()
	}
}

// permitsFence reports whether an app may have rejected the request of a run because the next owner had
// already opened the state of the shard, before its own first run. A map must have assigned the shard to that
// owner, and a fault must permit that the run ended after the takeover.
func (oc *ownershipChecker) permitsFence(run Run, maps mapTimeline) bool {
	return maps.hasLaterOwner(run, run.end()) && oc.findTakeoverExcuse(run, run.end()) != 0
}

// shardChecker checks the runs of one shard against each other.
type shardChecker struct {
	*ownershipChecker

	runs []Run // in ascending order of Start, after check has sorted them
}

// check sorts the runs, and checks each of them against the runs that began before it.
func (s *shardChecker) check() {
	slices.SortFunc(s.runs, compareStart)
	ownerByEpoch := make(map[uint64]string)
	var newest Run // the run with the highest epoch so far
	for _, run := range s.runs {
		s.checkEpochOwner(ownerByEpoch, run)
		if run.Epoch < newest.Epoch {
			s.checkStale(run, newest)
		} else {
			newest = run
		}
	}
	s.checkOverlaps()
	s.countHandovers()
}

// checkEpochOwner checks that a run has the same node as all previous runs with its ownership epoch, and
// adds it to ownerByEpoch.
func (s *shardChecker) checkEpochOwner(ownerByEpoch map[uint64]string, run Run) {
	owner, ok := ownerByEpoch[run.Epoch]
	switch {
	case !ok:
		ownerByEpoch[run.Epoch] = run.App
	case owner != run.App:
		s.report.addViolation(SharedEpoch, "shard %d epoch %d at %s and, for %s, at %s", run.Shard, run.Epoch, owner, run.ID, run.App)
	}
}

// checkOverlaps checks each run against the runs on other nodes that had not ended when it began.
func (s *shardChecker) checkOverlaps() {
	var unfinished []Run
	for _, run := range s.runs {
		unfinished = slices.DeleteFunc(unfinished, func(other Run) bool { return other.end() <= run.Start })
		for _, other := range unfinished {
			if other.App != run.App {
				s.checkOverlap(other, run)
			}
		}
		unfinished = append(unfinished, run)
	}
}

// countHandovers counts how often the next request ran on another node than the previous request.
func (s *shardChecker) countHandovers() {
	previousApp := ""
	for _, run := range s.runs {
		if run.fromAdmission {
			continue
		}
		if previousApp != "" && previousApp != run.App {
			s.report.Handovers++
		}
		previousApp = run.App
	}
}

// checkStale reports a run that began under an older epoch than a previous run, unless a fault
// excuses it. newest is the run with the newest epoch before it.
func (s *shardChecker) checkStale(run, newest Run) {
	if s.takenOverAt(run) < run.Start && s.countExcuse(s.findOverlapExcuse(run), run) {
		return
	}
	// A later owner had begun already, and no fault explains why the previous owner continued.
	s.report.addViolation(StaleEpoch, "shard %d: %s ran %s with epoch %d, %v after %s began %s with epoch %d", run.Shard,
		run.App, run.ID, run.Epoch, time.Duration(run.Start-newest.Start), newest.App, newest.ID, newest.Epoch)
}

// checkOverlap reports two runs on different nodes that overlap in time, unless a fault of the older
// owner excuses the overlap. later began before earlier ended.
func (s *shardChecker) checkOverlap(earlier, later Run) {
	staleRun := earlier
	if later.Epoch < earlier.Epoch {
		staleRun = later
	}
	if earlier.Epoch != later.Epoch && s.countExcuse(s.findOverlapExcuse(staleRun), staleRun) {
		return
	}
	// Two nodes ran the shard at the same time. Without a fault that excuses the older owner, its
	// node has run a request after its lease ended, or the next owner has begun too early.
	s.report.addViolation(TwoOwners, "shard %d: %s ran %s (epoch %d) from %v while %s ran %s (epoch %d), for %v", later.Shard, earlier.App, earlier.ID,
		earlier.Epoch, time.Duration(earlier.Start-later.Start), later.App, later.ID, later.Epoch,
		time.Duration(min(earlier.end(), later.end())-later.Start))
}

// countExcuse counts an excuse in the report. It returns false if there is no excuse.
func (s *shardChecker) countExcuse(excuse overlapExcuse, staleRun Run) bool {
	switch excuse {
	case nodePausedOrDead:
		s.report.PauseOverlaps++
	case connectionReset:
		s.report.ResetOverlaps++
	case abortNoticedLate:
		s.report.LateAbortOverlaps++
	default:
		return false
	}
	s.excusedOverlaps[staleRun.ID] = true
	s.report.OverlapsByShard[staleRun.Shard]++
	return true
}

// takenOverAt returns when another node began to run requests under a later epoch than that of
// staleRun. It returns never if no node did.
func (s *shardChecker) takenOverAt(staleRun Run) int64 {
	for _, run := range s.runs {
		if run.App != staleRun.App && run.Epoch > staleRun.Epoch {
			return run.Start
		}
	}
	return never
}
