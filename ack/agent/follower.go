package agent

import (
	"math"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// Follower determines which requests its node must drain, and what it has acknowledged. Its
// input is every state of the log of the node, from entries or from a snapshot. Skipping
// intermediate states is allowed.
type Follower struct {
	drainTimeout time.Duration
	self         shardmap.NodeID
	state        *ack.State

	acked    shardmap.Epoch
	draining shardmap.Epoch // zero means that there is nothing to drain
	// abortAt is when the requests for moving shards must be cut, which means aborted.
	// earlierAbortTimes contains earlier times for shards that a replaced proposal moved already.
	// The replacing proposal does not give their requests more time. Otherwise frequent map changes
	// could keep these requests running, and the round open, for an unlimited time.
	abortAt           time.Duration
	earlierAbortTimes map[shardmap.Shard]time.Duration
	nextAbortAt       time.Duration // the earliest time that AbortDue has not reported yet
}

// never is a time that does not come.
const never = time.Duration(math.MaxInt64)

// NewFollower returns the follower of node self before its first state. Drains are cut after
// drain, which must be above zero.
func NewFollower(self shardmap.NodeID, drain time.Duration) *Follower {
	return &Follower{drainTimeout: drain, self: self, state: ack.NewState()}
}

// StateApplied records the newest state. The caller must already have stopped admitting
// requests for shards that MayRun excludes. drain is true if there is a new proposal for which
// the node must drain.
func (f *Follower) StateApplied(now time.Duration, s *ack.State) (drain bool) {
	last := s.Proposed().Epoch()
	if last == 0 || last == f.draining || f.draining == 0 && last == f.acked {
		f.state = s
		return false
	}
	f.earlierAbortTimes = f.continuedAbortTimes(s)
	f.state, f.draining, f.abortAt = s, last, now+f.drainTimeout
	f.scheduleAbort(-1)
	return true
}

// continuedAbortTimes returns the cut times of shards that two proposals take from this node: the
// proposal for which the node drains now, and the last proposal of next. nil means that the
// node does not drain.
func (f *Follower) continuedAbortTimes(next *ack.State) (cuts map[shardmap.Shard]time.Duration) {
	if f.draining == 0 {
		return nil
	}
	after := &Follower{self: f.self, state: next}
	cuts = map[shardmap.Shard]time.Duration{}
	for s := range f.state.Committed().Shards(f.self) {
		if !f.MayRun(s) && !after.MayRun(s) {
			cuts[s] = f.abortTime(s)
		}
	}
	return cuts
}

// abortTime returns when the requests for the moving shard s must be cut.
func (f *Follower) abortTime(s shardmap.Shard) time.Duration {
	if at, ok := f.earlierAbortTimes[s]; ok {
		return at
	}
	return f.abortAt
}

// scheduleAbort sets nextAbortAt to the first cut time after now.
func (f *Follower) scheduleAbort(now time.Duration) {
	f.nextAbortAt = never
	if f.abortAt > now {
		f.nextAbortAt = f.abortAt
	}
	for _, at := range f.earlierAbortTimes {
		if at > now {
			f.nextAbortAt = min(f.nextAbortAt, at)
		}
	}
}

// MayRun reports whether requests for s may still run here. All other requests must end before
// the node acknowledges. While the key configuration changes, no request may run.
func (f *Follower) MayRun(s shardmap.Shard) bool { return !f.state.ChangesKeyConfig() && f.WillOwn(s) }

// WillOwn reports whether the last proposal names this node as owner of s.
func (f *Follower) WillOwn(s shardmap.Shard) bool { return f.state.Proposed().Owner(s) == f.self }

// Draining returns the epoch that the node drains for, zero if there is none.
func (f *Follower) Draining() shardmap.Epoch { return f.draining }

// RecordDrained records that no request runs for a shard that the node does not own in the
// proposal e. It returns true if the leader must be notified immediately.
func (f *Follower) RecordDrained(e shardmap.Epoch) bool {
	if e == 0 || e != f.draining {
		return false
	}
	f.acked, f.draining = e, 0
	return true
}

// AbortDue returns true, once for each cut time, when drain-timeout has passed for some moving
// shards. The caller must then abort the running requests of the shards for which Overdue
// returns true (rule 7).
func (f *Follower) AbortDue(now time.Duration) bool {
	if f.draining == 0 || now < f.nextAbortAt {
		return false
	}
	f.scheduleAbort(now)
	return true
}

// IsOverdue reports whether the shard s moves and drain-timeout has passed since the first of the
// successive proposals that take it from this node.
func (f *Follower) IsOverdue(now time.Duration, s shardmap.Shard) bool {
	return f.draining != 0 && !f.MayRun(s) && now >= f.abortTime(s)
}

// Acked returns the last proposal that this boot has applied and drained for.
func (f *Follower) Acked() shardmap.Epoch { return f.acked }

// State returns the newest state.
func (f *Follower) State() *ack.State { return f.state }
