package history

import (
	"slices"
	"time"
)

// shard judges the runs of one shard among each other.
type shard struct {
	*judge

	runs []Run // in the order of their starts, once judgeRuns has sorted them
}

func (s *shard) judgeRuns() {
	slices.SortFunc(s.runs, byStart)
	owners := make(map[uint64]string)
	var open []Run // those that had not ended yet
	var newest, last Run
	for _, run := range s.runs {
		if at, ok := owners[run.Epoch]; !ok {
			owners[run.Epoch] = run.App
		} else if at != run.App {
			s.report.add(SharedEpoch, "shard %d epoch %d at %s and, for %s, at %s", run.Shard, run.Epoch, at, run.ID, run.App)
		}
		if run.Epoch < newest.Epoch {
			s.stale(run, newest)
		} else {
			newest = run
		}
		open = slices.DeleteFunc(open, func(other Run) bool { return other.end() <= run.Start })
		for _, other := range open {
			if other.App != run.App {
				s.overlap(other, run)
			}
		}
		open = append(open, run)
		if last.App != "" && last.App != run.App && !run.asked {
			s.report.Handovers++
		}
		if !run.asked {
			last = run
		}
	}
}

// stale judges a run that began under an older epoch than one before it.
func (s *shard) stale(run, newest Run) {
	if s.taken(run) < run.Start && s.count(s.excuse(run), run) {
		return
	}
	s.report.add(StaleEpoch, "shard %d: %s ran %s with epoch %d, %v after %s began %s with epoch %d", run.Shard,
		run.App, run.ID, run.Epoch, time.Duration(run.Start-newest.Start), newest.App, newest.ID, newest.Epoch)
}

// overlap judges two runs at different nodes, later begun before earlier had
// ended.
func (s *shard) overlap(earlier, later Run) {
	old := earlier
	if later.Epoch < earlier.Epoch {
		old = later
	}
	if earlier.Epoch != later.Epoch && s.count(s.excuse(old), old) {
		return
	}
	s.report.add(TwoOwners, "shard %d: %s ran %s (epoch %d) from %v on while %s ran %s (epoch %d), for %v", later.Shard, earlier.App, earlier.ID,
		earlier.Epoch, time.Duration(earlier.Start-later.Start), later.App, later.ID, later.Epoch,
		time.Duration(min(earlier.end(), later.end())-later.Start))
}

// count notes an excuse; false if there is none.
func (s *shard) count(e excuse, old Run) bool {
	switch e {
	case stopped:
		s.report.Stopped++
	case forged:
		s.report.Forged++
	case noticedLate:
		s.report.Outside++
	default:
		return false
	}
	s.outside[old.ID] = true
	s.report.Overlapped[old.Shard]++
	return true
}

// taken is when another node began to run what belongs to an epoch after that of
// old.
func (s *shard) taken(old Run) int64 {
	for _, run := range s.runs {
		if run.App != old.App && run.Epoch > old.Epoch {
			return run.Start
		}
	}
	return never
}

// leased is the last moment up to another at which a node showed that it had a
// lease; false if it never did.
func (j *judge) leased(node string, until int64) (int64, bool) {
	at := j.leases[node]
	i, found := slices.BinarySearch(at, until)
	if found {
		return until, true
	}
	if i == 0 {
		return 0, false
	}
	return at[i-1], true
}
