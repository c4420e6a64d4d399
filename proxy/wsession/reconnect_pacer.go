package wsession

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxUpgrades is how many resumed WebSockets may await an upgrade response at the same time.
	MaxUpgrades = 64
	// initialReconnects is the initial limit. The limit doubles at each check until the first sign
	// of overload.
	initialReconnects = 8
	// minReconnects is the minimum limit, even if the node is always overloaded.
	minReconnects = 1
	// pacerInterval is the time between two checks while WebSockets are disconnected.
	pacerInterval = 10 * time.Millisecond
	// lateThreshold is the timer delay above which this node counts as overloaded. At such a delay,
	// requests also wait for the processor because of the reconnects.
	lateThreshold = 2 * time.Millisecond
	// SlowHandshake is the allowance in the comparison of handshakes. A handshake that takes longer
	// than twice the fastest one plus SlowHandshake means that the other node or the network path
	// is overloaded.
	SlowHandshake = 5 * time.Millisecond
	// SlowUpgrade is the same allowance for an upgrade response over a multiplexed stream. It is
	// longer because the app takes part in the response.
	SlowUpgrade = 25 * time.Millisecond
	// behindInterval is the minimum time between two increases of the limit while this node is
	// overloaded and behind schedule. The effect of an increase is measurable only after some time.
	behindInterval = 10 * pacerInterval
	// pacerIdle is how long no WebSocket must have been disconnected for the checks to stop.
	pacerIdle = time.Second
)

// ReconnectPacer limits how many resumable WebSockets this node reconnects to another node at the
// same time. It runs at the ingress of these WebSockets.
//
// Each reconnect costs two handshakes and an upgrade by the app. Reconnects in progress delay
// ordinary requests, in the run queues of both processes and in the kernel. Therefore the limit
// starts low. It doubles at each check until the first sign of overload (slow start). After that,
// it grows by one at each check and is halved on overload (additive increase, multiplicative
// decrease). There are two signs of overload: a timer that fires late, because ready goroutines
// have to wait, and a slow handshake with the other node.
//
// The clients also wait for their WebSockets. Therefore all sessions must be resumed within
// TimeLimit. While this node is late, it ignores overload.
type ReconnectPacer struct {
	// The following fields must be set before the first call of a method.

	TimeLimit    time.Duration
	MeasureDelay func(due time.Time) time.Duration // returns how late the present moment is, like TimerDelay
	OnGrow       func()                            // called after the limit has grown

	reduction atomic.Int32 // MaxUpgrades minus the limit
	peerSlow  atomic.Bool  // another node was slow since the last check
	outage    atomic.Int64 // number of outages so far; an outage is a period in which WebSockets are disconnected

	// mu protects the following fields.
	mu           sync.Mutex
	disconnected int       // WebSockets without an upstream connection
	recent       int       // WebSockets of disconnected that were lost more than TimeLimit after since
	since        time.Time // start of the present outage; zero means that no check is scheduled
	lastReturn   time.Time // when a WebSocket was last resumed
	firstReturn  time.Time // when the first WebSocket of this outage was resumed; zero means none
	returned     int       // number of WebSockets resumed in this outage
	slowStarting bool      // there has been no sign of overload in this outage

	lastRaise time.Time // when the limit was last increased because of isBehindLocked
}

// TimerDelay returns how much later than due the present moment is. It yields first, so that
// goroutines that are ready run before the measurement.
func TimerDelay(due time.Time) time.Duration {
	runtime.Gosched()
	return time.Since(due)
}

// Limit returns how many WebSockets may reconnect at the same time.
func (t *ReconnectPacer) Limit() int { return MaxUpgrades - int(t.reduction.Load()) }

// SessionLost records that a WebSocket has lost its upstream connection. The caller must call
// SessionResumed when the WebSocket has another one, or is closed.
func (t *ReconnectPacer) SessionLost() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.disconnected++
	now, looked := time.Now(), !t.since.IsZero()
	if now.Sub(t.since) >= t.TimeLimit {
		t.recent++
	}
	// A new outage begins in two cases. First, all earlier WebSockets have been resumed. Second, at
	// least half of the disconnected WebSockets are recent, so the others have exceeded TimeLimit:
	// an app may need long for a single WebSocket. If the old ones are the majority, their schedule
	// stays in force, because they must be resumed before their clients are closed.
	if t.disconnected == 1 || 2*t.recent >= t.disconnected {
		t.since, t.firstReturn, t.returned, t.recent = now, time.Time{}, 0, 0
		t.outage.Add(1)
	}
	if !looked {
		t.slowStarting = true
		t.setLimitLocked(initialReconnects)
		t.scheduleCheck(t.since.Add(pacerInterval))
	}
}

// SessionResumed records the end of a disconnection that SessionLost has recorded.
func (t *ReconnectPacer) SessionResumed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.disconnected--
	t.returned++
	if t.lastReturn = time.Now(); t.firstReturn.IsZero() {
		t.firstReturn = t.lastReturn
	}
}

// scheduleCheck schedules a check at due, which measures how late this node is. The check is
// repeated while WebSockets are disconnected.
func (t *ReconnectPacer) scheduleCheck(due time.Time) {
	time.AfterFunc(time.Until(due), func() {
		before, now := t.Limit(), due.Add(t.MeasureDelay(due))
		again := t.update(now.Sub(due), now)
		if t.Limit() > before {
			t.OnGrow()
		}
		if again {
			t.scheduleCheck(now.Add(pacerInterval))
		}
	})
}

// update adjusts the limit after a check. late is the measured delay. again reports whether another
// check is needed.
func (t *ReconnectPacer) update(late time.Duration, now time.Time) (again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	isLate := t.peerSlow.Swap(false) || late > lateThreshold
	switch {
	case isLate && t.isBehindLocked(now):
		if now.Sub(t.lastRaise) >= behindInterval {
			t.lastRaise = now
			t.setLimitLocked(t.Limit() + 1)
		}
	case isLate:
		t.slowStarting = false
		t.setLimitLocked(t.Limit() / 2)
	case t.firstReturn.IsZero(): // the cost of a reconnect is not known yet
	case t.slowStarting:
		t.setLimitLocked(2 * t.Limit())
	default:
		t.setLimitLocked(t.Limit() + 1)
	}
	if again = t.disconnected > 0 || now.Sub(t.lastReturn) < pacerIdle; !again {
		t.since = time.Time{}
	}
	return again
}

// isBehindLocked reports whether, at the present rate, some WebSockets will not be resumed within
// TimeLimit. The caller must hold mu.
func (t *ReconnectPacer) isBehindLocked(now time.Time) bool {
	if t.firstReturn.IsZero() {
		return false
	}
	past, left := now.Sub(t.firstReturn), t.TimeLimit-t.firstReturn.Sub(t.since)
	return past >= left || float64(t.returned) < float64(t.disconnected+t.returned)*float64(past)/float64(left)
}

// setLimitLocked sets the limit to n, within minReconnects and MaxUpgrades. The caller must hold
// mu.
func (t *ReconnectPacer) setLimitLocked(n int) {
	t.reduction.Store(int32(MaxUpgrades - min(max(n, minReconnects), MaxUpgrades)))
}

// LatencyBaseline contains the shortest duration of an operation in the present outage, with which
// other durations are compared.
type LatencyBaseline struct {
	fastest time.Duration
	outage  int64
}

// Record records the duration of an operation. If it exceeds twice the shortest one plus allowance,
// the peer counts as slow.
func (q *LatencyBaseline) Record(t *ReconnectPacer, took, allowance time.Duration) {
	if wave := t.outage.Load(); wave != q.outage || took < q.fastest {
		q.outage, q.fastest = wave, took // a new outage can concern another network path
	}
	if took > 2*q.fastest+allowance {
		t.peerSlow.Store(true)
	}
}
