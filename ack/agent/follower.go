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
	// cutAt is when the requests for moving shards must be cut, which means aborted. earlierCuts
	// contains earlier times for shards that a replaced proposal moved already. The replacing
	// proposal does not give their requests more time. Otherwise frequent map changes could keep
	// these requests running, and the round open, for an unlimited time.
	cutAt       time.Duration
	earlierCuts map[shardmap.Shard]time.Duration
	nextCut     time.Duration // the earliest time that CutDue has not reported yet
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
	last := s.Last().Epoch()
	if last == 0 || last == f.draining || f.draining == 0 && last == f.acked {
		f.state = s
		return false
	}
	f.earlierCuts = f.continuedCuts(s)
	f.state, f.draining, f.cutAt = s, last, now+f.drainTimeout
	f.scheduleCut(-1)
	return true
}

// continuedCuts returns the cut times of shards that two proposals take from this node: the
// proposal for which the node drains now, and the last proposal of next. nil means that the
// node does not drain.
func (f *Follower) continuedCuts(next *ack.State) (cuts map[shardmap.Shard]time.Duration) {
	if f.draining == 0 {
		return nil
	}
	after := &Follower{self: f.self, state: next}
	cuts = map[shardmap.Shard]time.Duration{}
	for s := range f.state.Committed().Shards(f.self) {
		if !f.MayRun(s) && !after.MayRun(s) {
			cuts[s] = f.cutTime(s)
		}
	}
	return cuts
}

// cutTime returns when the requests for the moving shard s must be cut.
func (f *Follower) cutTime(s shardmap.Shard) time.Duration {
	if at, ok := f.earlierCuts[s]; ok {
		return at
	}
	return f.cutAt
}

// scheduleCut sets nextCut to the first cut time after now.
func (f *Follower) scheduleCut(now time.Duration) {
	f.nextCut = never
	if f.cutAt > now {
		f.nextCut = f.cutAt
	}
	for _, at := range f.earlierCuts {
		if at > now {
			f.nextCut = min(f.nextCut, at)
		}
	}
}

// MayRun reports whether requests for s may still run here. All other requests must end before
// the node acknowledges. While the key configuration changes, no request may run.
func (f *Follower) MayRun(s shardmap.Shard) bool { return !f.state.ChangesKeys() && f.OwnsNext(s) }

// OwnsNext reports whether the last proposal names this node as owner of s.
func (f *Follower) OwnsNext(s shardmap.Shard) bool { return f.state.Last().Owner(s) == f.self }

// Draining returns the epoch that the node drains for, zero if there is none.
func (f *Follower) Draining() shardmap.Epoch { return f.draining }

// Drained records that no request runs for a shard that the node does not own in the
// proposal e. It returns true if the leader must be notified immediately.
func (f *Follower) Drained(e shardmap.Epoch) bool {
	if e == 0 || e != f.draining {
		return false
	}
	f.acked, f.draining = e, 0
	return true
}

// CutDue returns true, once for each cut time, when drain-timeout has passed for some moving
// shards. The caller must then abort the running requests of the shards for which Overdue
// returns true (rule 7).
func (f *Follower) CutDue(now time.Duration) bool {
	if f.draining == 0 || now < f.nextCut {
		return false
	}
	f.scheduleCut(now)
	return true
}

// Overdue reports whether the shard s moves and drain-timeout has passed since the first of the
// successive proposals that take it from this node.
func (f *Follower) Overdue(now time.Duration, s shardmap.Shard) bool {
	return f.draining != 0 && !f.MayRun(s) && now >= f.cutTime(s)
}

// Acked returns the last proposal that this boot has applied and drained for.
func (f *Follower) Acked() shardmap.Epoch { return f.acked }

// State returns the newest state.
func (f *Follower) State() *ack.State { return f.state }
