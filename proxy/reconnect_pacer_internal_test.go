package proxy

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// lateTempo is one with half a second of patience, on a node that is late once isLate.
func lateTempo(isLate *atomic.Bool) *reconnectPacer {
	late := func(time.Time) time.Duration {
		if isLate.Load() {
			return 3 * lateThreshold
		}
		return 0
	}
	return &reconnectPacer{timeLimit: 500 * time.Millisecond, measureDelay: late, onGrow: func() {}}
}

// leave has so many sockets be away from now on, until comeBack.
func (t *reconnectPacer) leave(n int) {
	for range n {
		t.sessionLost()
	}
}

// comeBack has so many of them have a leg again.
func (t *reconnectPacer) comeBack(n int) {
	for range n {
		t.sessionResumed()
	}
}

// Whether all will be back in time is asked of those that are away now. Of those before,
// which may have been away for longer than that, it says nothing: not even while one of
// them is not back yet, as its app takes long for it.
func TestSuccessiveHandoversAreSummarizedSeparately(t *testing.T) {
	for _, tc := range []struct {
		stay int
		gap  time.Duration
	}{
		{0, 300 * time.Millisecond},
		{0, 700 * time.Millisecond}, // longer than patience
		{1, 700 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%d away for %v", tc.stay, tc.gap), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var late atomic.Bool
				wave := lateTempo(&late)
				wave.leave(1 + tc.stay)
				time.Sleep(50 * time.Millisecond)
				wave.comeBack(1)
				time.Sleep(tc.gap) // it is still looked how late the node is
				const many = 100
				wave.leave(many)
				time.Sleep(20 * time.Millisecond)
				wave.comeBack(many / 2)
				before := wave.limit()
				late.Store(true)
				time.Sleep(50 * time.Millisecond)
				if now := wave.limit(); now > before/2 {
					t.Errorf("a node that is late, and in time with half of them back, brings %d back at once, and %d before, want fewer", now, before)
				}
				if n := wave.outage.Load(); n != 2 {
					t.Errorf("%d waves were counted, want 2: the quickest handshake is that of one", n)
				}
				wave.comeBack(many/2 + tc.stay)
				time.Sleep(2 * pacerIdle) // nobody looks any more
			})
		})
	}
}

// A few more that leave give those that are away for too long already no time: they go on
// coming back as fast as they did.
func TestLateWebSocketsAreNotDelayedByFewMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late atomic.Bool
		wave := lateTempo(&late)
		const many, more = 300, 10
		wave.leave(many)
		time.Sleep(50 * time.Millisecond)
		wave.comeBack(1)
		time.Sleep(700 * time.Millisecond)
		before := wave.limit()
		late.Store(true)
		wave.leave(more)
		time.Sleep(50 * time.Millisecond)
		if now := wave.limit(); now < before {
			t.Errorf("a node that is late, and behind, brings %d back at once when %d more leave, and %d before, want as many", now, more, before)
		}
		wave.comeBack(many + more - 1)
		time.Sleep(2 * pacerIdle)
	})
}
