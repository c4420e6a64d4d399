package ack

import (
	"time"

	"shardway/shardmap"
)

// Follower tells its node what to stop, what to drain, and what it has
// acknowledged. It is fed with every state that the node's log produces, by an
// entry or by a snapshot; it does not matter how many it misses in between.
type Follower struct {
	drainTimeout time.Duration // before it is cut
	self         shardmap.NodeID
	state        *State

	acked    shardmap.Epoch
	draining shardmap.Epoch // zero: nothing to drain
	cutAt    time.Duration
	cut      bool
}

// NewFollower returns the follower of node self before its first state. A drain
// may take as long as given, above zero, before it is cut.
func NewFollower(self shardmap.NodeID, drain time.Duration) *Follower {
	return &Follower{drainTimeout: drain, self: self, state: NewState()}
}

// Applied takes the newest state. The caller must already have stopped admitting
// what Moves reports, and now drains it; draining is false if there is nothing
// new to drain for.
func (f *Follower) StateApplied(now time.Duration, s *State) (drain bool) {
	f.state = s
	last := s.Last().Epoch()
	if last == 0 || last == f.draining || f.draining == 0 && last == f.acked {
		return false
	}
	f.draining, f.cutAt, f.cut = last, now+f.drainTimeout, false
	return true
}

// MayRun reports whether requests for s may still run here: those of all other
// shards must end before the node acknowledges. While the key configuration changes none may.
func (f *Follower) MayRun(s shardmap.Shard) bool { return !f.state.ChangesKeys() && f.OwnsNext(s) }

// Keeps reports whether the last proposal leaves or gives s to the node.
func (f *Follower) OwnsNext(s shardmap.Shard) bool { return f.state.Last().Owner(s) == f.self }

// Draining returns the epoch that the node drains for, zero if none.
func (f *Follower) Draining() shardmap.Epoch { return f.draining }

// Drained tells that nothing runs any more for a shard that the node does not
// own in the proposal of the given epoch. It reports whether that is news to
// tell the leader at once.
func (f *Follower) Drained(e shardmap.Epoch) bool {
	if e == 0 || e != f.draining {
		return false
	}
	f.acked, f.draining = e, 0
	return true
}

// CutDue reports, once per proposal, that DrainTimeout has passed: what still
// runs for a shard that moves is cut (rule 7).
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
