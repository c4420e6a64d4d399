package ack

import (
	"time"

	"shardway/shardmap"
)

// Follower determines which requests its node must drain, and what it has acknowledged. Its
// input is every state of the log of the node, from entries or from a snapshot. Skipping
// intermediate states is allowed.
type Follower struct {
	drainTimeout time.Duration
	self         shardmap.NodeID
	state        *State

	acked    shardmap.Epoch
	draining shardmap.Epoch // zero: nothing to drain
	cutAt    time.Duration
	cut      bool
}

// NewFollower returns the follower of node self before its first state. Drains are cut after
// drain, which must be above zero.
func NewFollower(self shardmap.NodeID, drain time.Duration) *Follower {
	return &Follower{drainTimeout: drain, self: self, state: NewState()}
}

// StateApplied takes the newest state. The caller must already have stopped admitting requests
// for shards that MayRun excludes. drain is false if there is no new proposal to drain for.
func (f *Follower) StateApplied(now time.Duration, s *State) (drain bool) {
	f.state = s
	last := s.Last().Epoch()
	if last == 0 || last == f.draining || f.draining == 0 && last == f.acked {
		return false
	}
	f.draining, f.cutAt, f.cut = last, now+f.drainTimeout, false
	return true
}

// MayRun reports whether requests for s may still run here. All other requests must end before
// the node acknowledges. While the key configuration changes, no request may run.
func (f *Follower) MayRun(s shardmap.Shard) bool { return !f.state.ChangesKeys() && f.OwnsNext(s) }

// OwnsNext reports whether the last proposal names this node as owner of s.
func (f *Follower) OwnsNext(s shardmap.Shard) bool { return f.state.Last().Owner(s) == f.self }

// Draining returns the epoch that the node drains for, zero if there is none.
func (f *Follower) Draining() shardmap.Epoch { return f.draining }

// Drained records that no request runs any more for a shard that the node does not own in the
// proposal e. It returns true if the leader must be notified at once.
func (f *Follower) Drained(e shardmap.Epoch) bool {
	if e == 0 || e != f.draining {
		return false
	}
	f.acked, f.draining = e, 0
	return true
}

// CutDue returns true, once per proposal, when drain-timeout has passed: running requests for
// moving shards must be cut (rule 7).
func (f *Follower) CutDue(now time.Duration) bool {
	if f.draining == 0 || f.cut || now < f.cutAt {
		return false
	}
	f.cut = true
	return true
}

// Acked returns the last proposal that this boot has applied and drained for.
func (f *Follower) Acked() shardmap.Epoch { return f.acked }

// State returns the newest state.
func (f *Follower) State() *State { return f.state }
