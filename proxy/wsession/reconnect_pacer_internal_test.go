package wsession

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// newLatePacer returns a pacer with a time limit of half a second, on a node that is overloaded while
// isLate is set.
func newLatePacer(isLate *atomic.Bool) *ReconnectPacer {
	late := func(time.Time) time.Duration {
		if isLate.Load() {
			return 3 * lateThreshold
		}
		return 0
	}
	return &ReconnectPacer{TimeLimit: 500 * time.Millisecond, MeasureDelay: late, OnLimitGrown: func() {}}
}

// leave disconnects n sessions, until comeBack.
func (p *ReconnectPacer) leave(n int) {
	for range n {
		p.RecordSessionLost()
	}
}

// comeBack resumes n sessions.
func (p *ReconnectPacer) comeBack(n int) {
	for range n {
		p.RecordSessionResumed()
	}
}

// The schedule of an outage applies to the sessions that are disconnected now. Sessions of an earlier
// outage do not count, even if one of them is not resumed yet because its app takes long.
func TestSuccessiveOutagesHaveTheirOwnSchedule(t *testing.T) {
	for _, tc := range []struct {
		stay int
		gap  time.Duration
	}{
		{0, 300 * time.Millisecond},
		{0, 700 * time.Millisecond}, // longer than TimeLimit
		{1, 700 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%d disconnected for %v", tc.stay, tc.gap), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var late atomic.Bool
				pacer := newLatePacer(&late)
				pacer.leave(1 + tc.stay)
				time.Sleep(50 * time.Millisecond)
				pacer.comeBack(1)
				time.Sleep(tc.gap) // the checks continue
				const many = 100
				pacer.leave(many)
				time.Sleep(20 * time.Millisecond)
				pacer.comeBack(many / 2)
				before := pacer.Limit()
				late.Store(true)
				time.Sleep(50 * time.Millisecond)
				if now := pacer.Limit(); now > before/2 {
					t.Errorf("an overloaded node that is on schedule resumes %d sessions at once, and %d before, want at most half", now, before)
				}
				if n := pacer.outage.Load(); n != 2 {
					t.Errorf("%d outages, want 2: each has its own fastest handshake", n)
				}
				pacer.comeBack(many/2 + tc.stay)
				time.Sleep(2 * checkIdleTime) // the checks have ended
			})
		})
	}
}

// If few more sessions are lost while many have exceeded the time limit, the limit of concurrent
// reconnects does not shrink.
func TestFewMoreSessionsDoNotExtendTheSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late atomic.Bool
		pacer := newLatePacer(&late)
		const many, more = 300, 10
		pacer.leave(many)
		time.Sleep(50 * time.Millisecond)
		pacer.comeBack(1)
		time.Sleep(700 * time.Millisecond)
		before := pacer.Limit()
		late.Store(true)
		pacer.leave(more)
		time.Sleep(50 * time.Millisecond)
		if now := pacer.Limit(); now < before {
			t.Errorf("an overloaded node that is behind schedule resumes %d sessions at once when %d more are lost, and %d before, want as many", now, more, before)
		}
		pacer.comeBack(many + more - 1)
		time.Sleep(2 * checkIdleTime)
	})
}
