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
	self         shardmap.NodeID
	drainTimeout time.Duration // time for requests of moving shards
	state        *ack.State    // the newest state of the log

	acked    shardmap.Epoch // the last proposal that this boot applied and drained for; zero means none
	draining shardmap.Epoch // the proposal that the node is draining for; zero if there is nothing to drain

	// abortAt is when the requests for moving shards must be aborted. earlierAbortTimes contains
	// earlier times for shards that a replaced proposal already moved. The new proposal does not
	// give their requests more time, because frequent map changes could otherwise keep these
	// requests running, and the round open, indefinitely.
	abortAt           time.Duration
	earlierAbortTimes map[shardmap.Shard]time.Duration
	nextAbortAt       time.Duration // the earliest time that AbortDue has not reported yet
}

// never is a time that does not come.
const never = time.Duration(math.MaxInt64)

// NewFollower returns the follower of node self before its first state. Requests of moving shards
// are aborted after drainTimeout, which must be above zero.
func NewFollower(self shardmap.NodeID, drainTimeout time.Duration) *Follower {
	return &Follower{drainTimeout: drainTimeout, self: self, state: ack.NewState()}
}

// ApplyState records the newest state. The caller must already have stopped admitting
// requests for shards that MayRun excludes. drain is true if there is a new proposal for which
// the node must drain.
func (f *Follower) ApplyState(now time.Duration, state *ack.State) (drain bool) {
	last := state.Proposed().Epoch()
	alreadyDraining := last == f.draining
	alreadyAcked := f.draining == 0 && last == f.acked
	if last == 0 || alreadyDraining || alreadyAcked {
		f.state = state
		return false
	}
	f.earlierAbortTimes = f.continuedAbortTimes(state)
	f.state, f.draining, f.abortAt = state, last, now+f.drainTimeout
	f.scheduleAbort(-1) // even a time that has already passed
	return true
}

// continuedAbortTimes returns the abort times of shards that two proposals take from this node: the
// one that the node is draining for, and the last proposal of next. It returns nil if the node is
// not draining.
func (f *Follower) continuedAbortTimes(next *ack.State) (times map[shardmap.Shard]time.Duration) {
	if f.draining == 0 {
		return nil
	}
	nextFollower := &Follower{self: f.self, state: next}
	times = map[shardmap.Shard]time.Duration{}
	for shard := range f.state.Committed().Shards(f.self) {
		if !f.MayRun(shard) && !nextFollower.MayRun(shard) {
			times[shard] = f.abortTime(shard)
		}
	}
	return times
}

// abortTime returns when the requests for the moving shard must be aborted.
func (f *Follower) abortTime(shard shardmap.Shard) time.Duration {
	if at, ok := f.earlierAbortTimes[shard]; ok {
		return at
	}
	return f.abortAt
}

// scheduleAbort sets nextAbortAt to the first abort time after now.
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

// MayRun reports whether requests for the shard may still run here. All others must end before the
// node acknowledges. While the key configuration changes, no request may run.
func (f *Follower) MayRun(shard shardmap.Shard) bool {
	return !f.state.ChangesKeyConfig() && f.WillOwn(shard)
}

// WillOwn reports whether the last proposal names this node as owner of the shard, and does not move
// the shard between two app instances of this node.
func (f *Follower) WillOwn(shard shardmap.Shard) bool {
	committed, proposed := f.state.Committed(), f.state.Proposed()
	return proposed.Owner(shard) == f.self && !movesWithinNode(committed, proposed, shard)
}

// movesWithinNode reports whether the proposed map moves the shard between two app instances of one
// node.
func movesWithinNode(committed, proposed *shardmap.Map, shard shardmap.Shard) bool {
	if int(shard) >= committed.Len() || committed.Owner(shard) != proposed.Owner(shard) {
		return false
	}
	return !committed.HasSameOwner(proposed, shard)
}

// Draining returns the epoch that the node drains for, zero if there is none.
func (f *Follower) Draining() shardmap.Epoch { return f.draining }

// RecordDrained records that no request runs for a shard that the node does not own in the proposal
// of this epoch. It returns true if the leader must be notified immediately.
func (f *Follower) RecordDrained(epoch shardmap.Epoch) bool {
	if epoch == 0 || epoch != f.draining {
		return false
	}
	f.acked, f.draining = epoch, 0
	return true
}

// AbortDue returns true, once for each abort time, when drain-timeout has passed for some moving
// shards. The caller must then abort the running requests of the shards for which IsOverdue
// returns true (rule 7).
func (f *Follower) AbortDue(now time.Duration) bool {
	if f.draining == 0 || now < f.nextAbortAt {
		return false
	}
	f.scheduleAbort(now)
	return true
}

// IsOverdue reports whether the shard moves and drain-timeout has passed since the first of the
// successive proposals that take it from this node.
func (f *Follower) IsOverdue(now time.Duration, shard shardmap.Shard) bool {
	return f.draining != 0 && !f.MayRun(shard) && now >= f.abortTime(shard)
}

// Acked returns the last proposal that this boot has applied and drained for.
func (f *Follower) Acked() shardmap.Epoch { return f.acked }

// State returns the newest state.
func (f *Follower) State() *ack.State { return f.state }
