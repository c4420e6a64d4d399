//go:build linux

package history

import (
	"cmp"
	"slices"
	"time"
)

// shard judges the runs of one shard among each other.
type shard struct {
	runs   []Run // in the order of their starts, once judge has sorted them
	stops  []Stop
	resets []Reset
	rules  Rules
	report *Report
	// outside collects the ids of requests whose runs were excused for being
	// beside another owner's.
	outside map[string]bool
}

func (s *shard) judge() {
	slices.SortFunc(s.runs, func(a, b Run) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Epoch, b.Epoch))
	})
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
		if last.App != "" && last.App != run.App {
			s.report.Handovers++
		}
		last = run
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
	s.report.add(TwoOwners, "shard %d: %s ran %s (epoch %d) while %s ran %s (epoch %d), for %v", later.Shard, earlier.App, earlier.ID,
		earlier.Epoch, later.App, later.ID, later.Epoch, time.Duration(min(earlier.end(), later.end())-later.Start))
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
