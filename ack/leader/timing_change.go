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
	// Elected means that Wait counts from the election of this leader, which does not know the
	// time of the last change.
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
	if !l.barrierApplied || l.leases.revoked || !l.state.Bootstrapped() {
		return nil, ErrNotYet
	}
	if wait := l.mixedTimingFor(now); wait > 0 {
		return nil, TooSoonError{Wait: wait, Elected: l.timingSeenAt == l.electedAt}
	}
	return ack.EncodeTiming(l.state.FormatVersion(), ack.TimingEntry{Term: l.options.Term, Replaces: l.state.TimingIndex(), Timing: timing}), nil
}

// timing returns the committed timing, by which leases are granted.
func (l *Leader) timing() ack.Timing {
	if !l.state.Bootstrapped() {
		return l.options.Timing
	}
	return l.state.Timing()
}

// mixedTimingFor returns how long nodes may still hold leases of the previous timing, or run
// requests admitted by them. Zero or less means not any more.
func (l *Leader) mixedTimingFor(now time.Duration) time.Duration {
	return l.timingSeenAt + max(l.state.Timing().DeadAfter, l.state.PreviousTiming().DeadAfter) - now
}

// longestTiming returns the timing by which the leader waits: the longer of the present and
// the previous one, until all grants by the previous one have certainly expired.
func (l *Leader) longestTiming(now time.Duration) ack.Timing {
	timing := l.timing()
	if l.mixedTimingFor(now) > 0 {
		timing = timing.Longer(l.state.PreviousTiming())
	}
	return timing
}
