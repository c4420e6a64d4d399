package proxy

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// initialReconnects is the initial limit. It doubles at every check until the first sign of
	// overload.
	initialReconnects = 8
	// minReconnects is the smallest limit, for a node that is overloaded all the time.
	minReconnects = 1
	// pacerInterval is the time between two checks while WebSockets are disconnected.
	pacerInterval = 10 * time.Millisecond
	// lateThreshold is the timer delay from which this node counts as overloaded: requests then
	// wait behind reconnects.
	lateThreshold = 2 * time.Millisecond
	// slowHandshake is how much longer than twice the fastest handshake with the same node a
	// handshake may take. A slower one means that the node, or the network path, is overloaded.
	slowHandshake = 5 * time.Millisecond
	// slowUpgrade is the same allowance for an upgrade response over a multiplexed stream. It is
	// longer because the app takes part in the response.
	slowUpgrade = 25 * time.Millisecond
	// behindInterval is the minimum time between two raises of the limit while this node is
	// overloaded and behind schedule. The effect of a raise shows only after a while.
	behindInterval = 10 * pacerInterval
	// pacerIdle is for how long no WebSocket must have been disconnected before the checks stop.
	pacerIdle = time.Second
)

// reconnectPacer limits how many resumable WebSockets this node reconnects to one other node at
// the same time. This node has the clients of these WebSockets.
//
// Each reconnect costs two handshakes and an upgrade by the app. All reconnects in progress delay
// ordinary requests, in the run queues of both processes and in the kernel. The limit therefore
// starts small. It is halved when a timer fires late, which shows that ready goroutines had to
// wait, or when the other node is slow to complete a handshake. Otherwise it grows by one, and
// before the first sign of overload it doubles (slow start, then additive increase and
// multiplicative decrease).
//
// Clients wait for their WebSockets as well. While this node is behind schedule, it ignores
// overload: all sessions must be resumed within patience.
type reconnectPacer struct {
	patience     time.Duration
	measureDelay func(due time.Time) time.Duration // how late the present moment is
	onGrow       func()                            // called after the limit has grown

	reduction atomic.Int32 // maxUpgrades minus the limit
	peerSlow  atomic.Bool  // another node was slow since the last check
	outage    atomic.Int64 // number of outages so far

	// mu protects the following fields.
	mu           sync.Mutex
	disconnected int       // WebSockets without an upstream connection
	recent       int       // of these, disconnected later than patience after since
	since        time.Time // start of the present outage; zero means that no check is scheduled
	lastReturn   time.Time // when a WebSocket was last resumed
	firstReturn  time.Time // when the first WebSocket of this outage was resumed; zero means none
	returned     int       // WebSockets resumed in this outage
	slowStarting bool      // no sign of overload in this outage

	lastRaise time.Time // when the limit was last raised because of isBehindLocked
}

// timerDelay returns how much later than due the present moment is. It yields first, so that the
// goroutines that are ready run before the measurement.
func timerDelay(due time.Time) time.Duration {
	runtime.Gosched()
	return time.Since(due)
}

// limit returns how many WebSockets may reconnect at the same time.
func (t *reconnectPacer) limit() int { return maxUpgrades - int(t.reduction.Load()) }

// sessionLost records a WebSocket that has lost its upstream connection. Call sessionResumed when
// it has another one, or is closed.
func (t *reconnectPacer) sessionLost() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.disconnected++
	now, looked := time.Now(), !t.since.IsZero()
	if now.Sub(t.since) >= t.patience {
		t.recent++
	}
	// A new outage begins if all earlier WebSockets are back, or if those that are missing have
	// exceeded patience and are at most as many as the recent ones: an app may take long for a
	// single WebSocket. If the missing ones are the majority, their schedule stays in force,
	// because they must return before their clients are given up.
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

// sessionResumed records the end of the disconnection that sessionLost has recorded.
func (t *reconnectPacer) sessionResumed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.disconnected--
	t.returned++
	if t.lastReturn = time.Now(); t.firstReturn.IsZero() {
		t.firstReturn = t.lastReturn
	}
}

// scheduleCheck measures at due how late this node is, and repeats that while WebSockets are
// disconnected.
func (t *reconnectPacer) scheduleCheck(due time.Time) {
	time.AfterFunc(time.Until(due), func() {
		before, now := t.limit(), due.Add(t.measureDelay(due))
		again := t.update(now.Sub(due), now)
		if t.limit() > before {
			t.onGrow()
		}
		if again {
			t.scheduleCheck(now.Add(pacerInterval))
		}
	})
}

// update adjusts the limit to the measured delay late, and reports whether another check is
// needed.
func (t *reconnectPacer) update(late time.Duration, now time.Time) (again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	isLate := t.peerSlow.Swap(false) || late > lateThreshold
	switch {
	case isLate && t.isBehindLocked(now):
		if now.Sub(t.lastRaise) >= behindInterval {
			t.lastRaise = now
			t.setLimitLocked(t.limit() + 1)
		}
	case isLate:
		t.slowStarting = false
		t.setLimitLocked(t.limit() / 2)
	case t.firstReturn.IsZero(): // the cost of a reconnect is not known yet
	case t.slowStarting:
		t.setLimitLocked(2 * t.limit())
	default:
		t.setLimitLocked(t.limit() + 1)
	}
	if again = t.disconnected > 0 || now.Sub(t.lastReturn) < pacerIdle; !again {
		t.since = time.Time{}
	}
	return again
}

// isBehindLocked reports whether at the present rate some WebSockets will not be resumed within
// patience. The caller holds mu.
func (t *reconnectPacer) isBehindLocked(now time.Time) bool {
	if t.firstReturn.IsZero() {
		return false
	}
	past, left := now.Sub(t.firstReturn), t.patience-t.firstReturn.Sub(t.since)
	return past >= left || float64(t.returned) < float64(t.disconnected+t.returned)*float64(past)/float64(left)
}

// setLimitLocked sets the limit to n, bounded by minReconnects and maxUpgrades. The caller holds
// mu.
func (t *reconnectPacer) setLimitLocked(n int) {
	t.reduction.Store(int32(maxUpgrades - min(max(n, minReconnects), maxUpgrades)))
}

// recordHandshake records how long a handshake took while WebSockets were waiting for a
// connection. The caller holds p.mu.
func (p *pool) recordHandshake(took time.Duration) {
	if p.mu.queue.upgrades == 0 {
		return
	}
	p.mu.handshakes.record(p.pacer, took, slowHandshake)
}

// latencyBaseline is the shortest duration of an operation during the present outage. Slower
// operations are compared with it.
type latencyBaseline struct {
	fastest time.Duration
	outage  int64
}

// record records an operation that took the given time. If it took longer than twice the fastest
// one plus allowance, the peer counts as slow.
func (q *latencyBaseline) record(t *reconnectPacer, took, allowance time.Duration) {
	if wave := t.outage.Load(); wave != q.outage || took < q.fastest {
		q.outage, q.fastest = wave, took // a new outage can concern another network path
	}
	if took > 2*q.fastest+allowance {
		t.peerSlow.Store(true)
	}
}

// dialForUpgrades starts further dials after the limit of the pacer has grown.
func (p *pool) dialForUpgrades() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.queue.upgrades > 0 {
		p.dialForWaiters()
	}
}

// upgradeResponded records that a WebSocket that is being resumed over l has the response to its
// upgrade request.
func (p *pool) upgradeResponded(l *upstreamConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.singleUse && l.awaitingUpgrade {
		p.mu.upgradeResponses.record(p.pacer, p.clock.exact()-l.idleSince, slowUpgrade)
	}
	p.upgradeRespondedLocked(l)
	p.dialForWaiters()
}

// upgradeRespondedLocked ends the count of l as a connection that waits for an upgrade response.
// It does nothing for other connections. The caller holds p.mu.
func (p *pool) upgradeRespondedLocked(l *upstreamConn) {
	if l.awaitingUpgrade {
		l.awaitingUpgrade = false
		p.mu.awaitingUpgrade--
	}
}
