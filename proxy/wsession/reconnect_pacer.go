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
	// checkInterval is the time between two checks while WebSockets are disconnected.
	checkInterval = 10 * time.Millisecond
	// lateThreshold is the timer delay above which this node is treated as overloaded. At such a
	// delay, the reconnects also make requests wait for the processor.
	lateThreshold = 2 * time.Millisecond
	// HandshakeAllowance is the tolerance for comparing handshakes. A handshake that takes longer
	// than twice the fastest one plus HandshakeAllowance means that the other node or the network
	// path is overloaded.
	HandshakeAllowance = 5 * time.Millisecond
	// UpgradeAllowance is the corresponding tolerance for an upgrade response over a multiplexed
	// stream. It is longer because the app is involved.
	UpgradeAllowance = 25 * time.Millisecond
	// minRaiseInterval is the minimum time between two increases of the limit while this node is
	// overloaded and behind schedule. The effect of an increase takes some time to show.
	minRaiseInterval = 10 * checkInterval
	// checkIdleTime is how long all WebSockets must have been connected before the checks stop.
	checkIdleTime = time.Second
)

// ReconnectPacer limits how many resumable WebSockets this node reconnects to another node at the
// same time. It runs at the ingress of these WebSockets.
//
// Each reconnect costs two handshakes and an upgrade by the app. Reconnects in progress delay
// ordinary requests, in the run queues of both processes and in the kernel, so the limit starts
// low. It doubles at each check until the first sign of overload (slow start). After that, it grows
// by one at each check and is halved on overload (additive increase, multiplicative decrease).
// There are two signs of overload: a timer that fires late, because ready goroutines have to wait,
// and a slow handshake with the other node.
//
// But clients are waiting for their WebSockets, so all sessions must be resumed within TimeLimit.
// While this node is behind schedule, it does not reduce the limit on overload.
type ReconnectPacer struct {
	// The following fields must be set before the first call of a method.

	TimeLimit    time.Duration
	MeasureDelay func(due time.Time) time.Duration // returns how late the current time is, like TimerDelay
	OnLimitGrown func()                            // called after the limit has grown

	limitReduction atomic.Int32 // MaxUpgrades minus the limit
	isPeerSlow     atomic.Bool  // another node was slow since the last check
	outage         atomic.Int64 // number of outages so far; an outage is a period in which WebSockets are disconnected

	// mu protects the following fields.
	mu           sync.Mutex
	disconnected int       // WebSockets without an upstream connection
	recentlyLost int       // those of disconnected that were lost more than TimeLimit after outageStart
	outageStart  time.Time // start of the current outage; zero means that no check is scheduled
	lastResumed  time.Time // when a WebSocket was last resumed
	firstResumed time.Time // when the first WebSocket of this outage was resumed; zero means none
	resumed      int       // number of WebSockets resumed in this outage
	slowStarting bool      // there has been no sign of overload in this outage

	lastRaise time.Time // when the limit was last increased because of isBehindLocked
}

// TimerDelay returns how much later than due the current time is. It yields the processor first, so
// that ready goroutines run before the measurement.
func TimerDelay(due time.Time) time.Duration {
	runtime.Gosched()
	return time.Since(due)
}

// Limit returns how many WebSockets may reconnect at the same time.
func (p *ReconnectPacer) Limit() int { return MaxUpgrades - int(p.limitReduction.Load()) }

// RecordSessionLost records that a WebSocket has lost its upstream connection. The caller must call
// RecordSessionResumed when the WebSocket has another one, or is closed.
func (p *ReconnectPacer) RecordSessionLost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.disconnected++
	now, checksRunning := time.Now(), !p.outageStart.IsZero()
	if now.Sub(p.outageStart) >= p.TimeLimit {
		p.recentlyLost++
	}
	// A new outage begins if all previously lost WebSockets have been resumed, or if at least half
	// of the disconnected ones are recent. In the second case the others have exceeded TimeLimit,
	// because an app may take long for a single WebSocket. If the old ones are the majority, their
	// schedule is kept, because they must be resumed before their client connections are closed.
	if p.disconnected == 1 || 2*p.recentlyLost >= p.disconnected {
		p.outageStart, p.firstResumed, p.resumed, p.recentlyLost = now, time.Time{}, 0, 0
		p.outage.Add(1)
	}
	if !checksRunning {
		p.slowStarting = true
		p.setLimitLocked(initialReconnects)
		p.scheduleCheck(p.outageStart.Add(checkInterval))
	}
}

// RecordSessionResumed records that a WebSocket counted by RecordSessionLost was resumed or closed.
func (p *ReconnectPacer) RecordSessionResumed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.disconnected--
	p.resumed++
	if p.lastResumed = time.Now(); p.firstResumed.IsZero() {
		p.firstResumed = p.lastResumed
	}
}

// scheduleCheck schedules a check at due. The check measures how late it runs, adjusts the limit,
// and is repeated as long as adjustLimit requests it.
func (p *ReconnectPacer) scheduleCheck(due time.Time) {
	time.AfterFunc(time.Until(due), func() {
		previousLimit, now := p.Limit(), due.Add(p.MeasureDelay(due))
		needsCheck := p.adjustLimit(now.Sub(due), now)
		if p.Limit() > previousLimit {
			p.OnLimitGrown()
		}
		if needsCheck {
			p.scheduleCheck(now.Add(checkInterval))
		}
	})
}

// adjustLimit adjusts the limit according to a check. delay is the measured delay. needsCheck reports
// whether another check is needed.
func (p *ReconnectPacer) adjustLimit(delay time.Duration, now time.Time) (needsCheck bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	isOverloaded := p.isPeerSlow.Swap(false) || delay > lateThreshold
	switch {
	case isOverloaded && p.isBehindLocked(now):
		if now.Sub(p.lastRaise) >= minRaiseInterval {
			p.lastRaise = now
			p.setLimitLocked(p.Limit() + 1)
		}
	case isOverloaded:
		p.slowStarting = false
		p.setLimitLocked(p.Limit() / 2)
	case p.firstResumed.IsZero(): // the cost of a reconnect is not known yet
	case p.slowStarting:
		p.setLimitLocked(2 * p.Limit())
	default:
		p.setLimitLocked(p.Limit() + 1)
	}
	if needsCheck = p.disconnected > 0 || now.Sub(p.lastResumed) < checkIdleTime; !needsCheck {
		p.outageStart = time.Time{}
	}
	return needsCheck
}

// isBehindLocked reports whether, at the current rate, some WebSockets will not be resumed within
// TimeLimit. The caller must hold mu.
func (p *ReconnectPacer) isBehindLocked(now time.Time) bool {
	if p.firstResumed.IsZero() {
		return false
	}
	elapsed, available := now.Sub(p.firstResumed), p.TimeLimit-p.firstResumed.Sub(p.outageStart)
	return elapsed >= available || float64(p.resumed) < float64(p.disconnected+p.resumed)*float64(elapsed)/float64(available)
}

// setLimitLocked sets the limit, bounded by minReconnects and MaxUpgrades. The caller must hold mu.
func (p *ReconnectPacer) setLimitLocked(limit int) {
	p.limitReduction.Store(int32(MaxUpgrades - min(max(limit, minReconnects), MaxUpgrades)))
}

// LatencyBaseline contains the shortest duration of an operation in the current outage, as a
// baseline for others.
type LatencyBaseline struct {
	fastest time.Duration
	outage  int64
}

// Record records the duration of an operation. If it exceeds twice the shortest one plus allowance,
// the peer is treated as slow.
func (b *LatencyBaseline) Record(pacer *ReconnectPacer, duration, allowance time.Duration) {
	if outage := pacer.outage.Load(); outage != b.outage || duration < b.fastest {
		b.outage, b.fastest = outage, duration // a new outage may concern a different network path
	}
	if duration > 2*b.fastest+allowance {
		pacer.isPeerSlow.Store(true)
	}
}
