package leader

import (
	"errors"
	"fmt"
	"time"

	"shardway/ack"
)

// ErrNotYet reports that a leader cannot make a change, because its barrier is not applied
// yet, or because it no longer leads.
var ErrNotYet = errors.New("ack: this leader was elected a moment ago, or has lost the leadership")

// TooSoonError reports that leases of the previous timing may still run. A leader waits by two
// timings, not by three.
type TooSoonError struct {
	Wait time.Duration
	// Elected is set if Wait counts from the election of this leader, which does not know the time
	// of the last change.
	Elected bool
}

// Error returns a message with the remaining time.
func (e TooSoonError) Error() string {
	return fmt.Sprintf("ack: the timing or the leader changed too recently: wait %v", e.Wait)
}

// ChangeTiming returns the entry that replaces the timing in force. The caller submits it, and the
// state shows the result. Until then this leader grants by the committed timing. The caller must
// check the conditions between the parts of the timing.
//
// A change is refused until the larger dead-after has passed since the last change, or since
// the election, because a new leader does not know the time of the last change.
func (l *Leader) ChangeTiming(now time.Duration, timing ack.Timing) ([]byte, error) {
	if !l.acceptsRequests() {
		return nil, ErrNotYet
	}
	if wait := l.timings.transitionRemaining(now, l.in.state); wait > 0 {
		return nil, TooSoonError{Wait: wait, Elected: l.timings.changeSeenAt == l.in.electedAt}
	}
	entry := ack.TimingEntry{Term: l.in.term, Replaces: l.in.state.TimingIndex(), Timing: timing}
	return ack.EncodeTiming(l.in.state.FormatVersion(), entry), nil
}

// timingTracker determines the timing by which a leader grants leases, and the timing by which it
// waits for their end. They differ for a while after a change of the timing.
type timingTracker struct {
	// configured is the timing of this node's flags. It applies until the log contains a timing.
	configured ack.Timing
	// changeSeenAt is when the current timing was first seen; initially the election.
	changeSeenAt time.Duration
}

// grantTiming returns the committed timing, by which leases are granted.
func (tt *timingTracker) grantTiming(state *ack.State) ack.Timing {
	if !state.Bootstrapped() {
		return tt.configured
	}
	return state.Timing()
}

// transitionRemaining returns how long nodes may still hold leases of the previous timing, or run
// requests admitted by them. It is zero or negative if they no longer can.
func (tt *timingTracker) transitionRemaining(now time.Duration, state *ack.State) time.Duration {
	return tt.changeSeenAt + max(state.Timing().DeadAfter, state.PreviousTiming().DeadAfter) - now
}

// waitTiming returns the timing by which the leader waits: the longer of the current and the
// previous one, until all grants by the previous one have certainly expired.
func (tt *timingTracker) waitTiming(now time.Duration, state *ack.State) ack.Timing {
	timing := tt.grantTiming(state)
	if tt.transitionRemaining(now, state) > 0 {
		timing = timing.Longer(state.PreviousTiming())
	}
	return timing
}

// applyState records when the leader saw the last change of the timing.
func (tt *timingTracker) applyState(now time.Duration, old, state *ack.State) {
	if state.TimingIndex() != old.TimingIndex() {
		tt.changeSeenAt = now
	}
}
