package ack

import (
	"errors"
	"fmt"
	"time"
)

// ErrNotYet reports that a leader cannot change the timing before its barrier is
// applied, or not any more.
var ErrNotYet = errors.New("ack: this leader has only just begun, or is none any more")

// TooSoonError reports that leases of a timing before the present one may still
// run: a leader waits by two of them, not by three.
type TooSoonError struct {
	Wait time.Duration
	// Elected means that it is counted from this leader's election: it does not know
	// when the change was.
	Elected bool
}

// Error says how long to wait.
func (e TooSoonError) Error() string {
	return fmt.Sprintf("ack: the timing changed, or the leader did, too lately: wait %v", e.Wait)
}

// Retime returns the entry that puts t in the place of the timing in force. The
// caller submits it and sees in the state what came of it; until then this leader
// grants by the timing that is committed. The bounds between the parts of t are the
// caller's to check.
//
// A change is refused until the larger dead-after has passed since the last one,
// or since the election: a new leader does not know when that was.
func (l *Leader) ChangeTiming(now time.Duration, t Timing) ([]byte, error) {
	if !l.barrierApplied || l.leases.revoked || !l.state.Bootstrapped() {
		return nil, ErrNotYet
	}
	if wait := l.mixedTimingFor(now); wait > 0 {
		return nil, TooSoonError{Wait: wait, Elected: l.timingSeenAt == l.elected}
	}
	return encodeTiming(l.state.Level(), timingEntry{term: l.o.Term, replaces: l.state.TimingSince(), timing: t}), nil
}

// timing returns the timing in force, by which leases are granted. The state has
// only what is committed.
func (l *Leader) timing() Timing {
	if !l.state.Bootstrapped() {
		return l.o.Timing
	}
	return l.state.Timing()
}

// mixedFor returns for how long nodes may still hold leases, or run what they
// admitted, by the timing before the one in force; zero or less: not any more.
func (l *Leader) mixedTimingFor(now time.Duration) time.Duration {
	return l.timingSeenAt + max(l.state.Timing().DeadAfter, l.state.TimingBefore().DeadAfter) - now
}

// waits returns what every wait goes by: the larger of the timing in force and the
// one before it, until what was granted by that one is over for certain.
func (l *Leader) longestTiming(now time.Duration) Timing {
	t := l.timing()
	if l.mixedTimingFor(now) > 0 {
		t = t.Longer(l.state.TimingBefore())
	}
	return t
}
