//go:build linux

package history

import "math"

// never is when something ends that has not ended.
const never = math.MaxInt64

// excuse says why a run beside those of a later owner breaks no promise.
type excuse int

const (
	// stopped: the run straddles a Stop.
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
//     that is continued cuts it before anything else;
//   - may go on after a forged refusal, unless the fence is strict: until the node,
//     which has no lease, cuts it, which is less than DeadAfter after the taking;
//   - may be cut, and its app notice late.
//
// What began after it never may, but for --fence refused, which takes a refusal at
// its word while leases last: until the lease of the node ends if it was forged,
// and while what the node had sent to its app is on its way if it was killed.
func (s *shard) excuse(old Run) excuse {
	taken, notice := s.taken(old), int64(s.rules.CutNotice)
	lasts := old.Start <= taken // it began while the shard was its owner's
	refused := s.rules.Fence == "refused"
	for _, t := range s.stops {
		switch {
		case t.Node != old.App || taken < t.From:
		case lasts && old.Start < t.until() && old.endsBefore(after(t.until(), notice)):
			return stopped
		case refused && old.Start >= t.From && old.Start < t.From+notice && old.endsBefore(t.From+2*notice):
			return noticedLate
		}
	}
	for _, t := range s.resets {
		if !t.between(old.App) || taken < t.From || !refused && s.rules.Fence != "lease" {
			continue
		}
		change := min(taken, after(t.until(), notice)) // of owners, at the latest
		began := lasts && old.Start < t.until() || refused && old.Start < change+int64(s.rules.Lease)+notice
		if began && old.endsBefore(change+int64(s.rules.DeadAfter)) {
			return forged
		}
	}
	if lasts && old.Cut && old.endsBefore(taken+notice) {
		return noticedLate
	}
	return 0
}

// endsBefore takes never for a time that everything ends before.
func (r Run) endsBefore(t int64) bool { return t == never || r.end() < t }

// after is a time and a while later; never stays never.
func after(t, while int64) int64 {
	if t > never-while {
		return never
	}
	return t + while
}
