package proxy

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// initialReconnects is how many sockets a node brings back at once before it knows how late that
	// makes it: as many again each time it is looked, until it is.
	initialReconnects = 8
	// minReconnects is the same of a node that is late all the time.
	minReconnects = 1
	// pacerInterval is how often it is looked how late the node is, while sockets come back.
	pacerInterval = 10 * time.Millisecond
	// lateThreshold is how late a node is on which requests wait for sockets.
	lateThreshold = 2 * time.Millisecond
	// slowHandshake is how much longer a connection may take than twice the quickest one to the
	// same node: then that is late, or what is between.
	slowHandshake = 5 * time.Millisecond
	// slowUpgrade is the same of an answer that comes by a lane, which the app takes part in.
	slowUpgrade = 25 * time.Millisecond
	// behindInterval is how often there is one more for a node that is late and behind: it takes a
	// while until that shows.
	behindInterval = 10 * pacerInterval
	// pacerIdle is for how long no socket must have been away for the looking to end.
	pacerIdle = time.Second
)

// reconnectPacer is how many kept sockets this node, which has their clients, brings back at once to
// another one. Each costs two handshakes and the app's upgrade, and all that are under way
// stand in front of a request: in the run queues of both processes, and their threads in the
// kernel's. So it begins with few. Their number is halved whenever a timer comes late,
// together with all that was ready before it, or the other node is late with a handshake; it
// grows by one, before the first such time by all, whenever neither is. Clients wait for
// their sockets, too: what keeps those from all being back within patience does not count.
type reconnectPacer struct {
	patience     time.Duration
	measureDelay func(due time.Time) time.Duration // how late it is
	onGrow       func()                            // more may come back than before

	reduction atomic.Int32 // how many fewer than maxUpgrades may come back at once
	peerSlow  atomic.Bool  // another node was late since the last look
	outage    atomic.Int64 // counts the waves in which sockets went away

	mu           sync.Mutex
	disconnected int       // sockets without a leg
	recent       int       // how many left after patience with those of this count was over
	since        time.Time // when the first of this count was away; zero: nobody looks
	lastReturn   time.Time // when one came back
	firstReturn  time.Time // when the first one did since then; zero: none has
	returned     int       // how many have
	slowStarting bool      // it has not been late since then

	lastRaise time.Time // when there were more because it was behind
}

// timerDelay returns how much later than due it is, behind all that are ready.
func timerDelay(due time.Time) time.Duration {
	runtime.Gosched()
	return time.Since(due)
}

// limit returns how many sockets may come back at once.
func (t *reconnectPacer) limit() int { return maxUpgrades - int(t.reduction.Load()) }

// sessionLost notes a socket that is without a leg from now on, until arrives.
func (t *reconnectPacer) sessionLost() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.disconnected++
	now, looked := time.Now(), !t.since.IsZero()
	if now.Sub(t.since) >= t.patience {
		t.recent++
	}
	// Those of before are back, or too late and no more than have left since: an app may take
	// long for one. If they are more, all go by them: they are to be back before they are given up.
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

func (t *reconnectPacer) sessionResumed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.disconnected--
	t.returned++
	if t.lastReturn = time.Now(); t.firstReturn.IsZero() {
		t.firstReturn = t.lastReturn
	}
}

// scheduleCheck looks at due how late the node is, and again and again for as long as sockets are
// away.
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

// update goes by how late the node is, and reports whether that is to be looked at again.
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
	case t.firstReturn.IsZero(): // it is not known yet what one costs
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

// isBehindLocked reports whether at this rate not all will be back within patience. With mu held.
func (t *reconnectPacer) isBehindLocked(now time.Time) bool {
	if t.firstReturn.IsZero() {
		return false
	}
	past, left := now.Sub(t.firstReturn), t.patience-t.firstReturn.Sub(t.since)
	return past >= left || float64(t.returned) < float64(t.disconnected+t.returned)*float64(past)/float64(left)
}

// setLimitLocked has so many come back at once, within the bounds. With mu held.
func (t *reconnectPacer) setLimitLocked(n int) {
	t.reduction.Store(int32(maxUpgrades - min(max(n, minReconnects), maxUpgrades)))
}

// recordHandshake notes how long a handshake of the pool took for one that waits to come back.
// With mu held.
func (p *pool) recordHandshake(took time.Duration) {
	if p.mu.queue.upgrades == 0 {
		return
	}
	p.mu.handshakes.record(p.pacer, took, slowHandshake)
}

// latencyBaseline is how long the quickest of something took since sockets began to be away, for the
// time that tempo counts.
type latencyBaseline struct {
	fastest time.Duration
	outage  int64
}

// record judges one that took so long.
func (q *latencyBaseline) record(t *reconnectPacer, took, after time.Duration) {
	if wave := t.outage.Load(); wave != q.outage || took < q.fastest {
		q.outage, q.fastest = wave, took // the path may be another one than last time
	}
	if took > 2*q.fastest+after {
		t.peerSlow.Store(true)
	}
}

// dialForUpgrades has connections made if more may be than before.
func (p *pool) dialForUpgrades() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.queue.upgrades > 0 {
		p.dialForWaiters()
	}
}

// upgradeResponded notes that a socket that asked for its next leg has its answer.
func (p *pool) upgradeResponded(l *upstreamConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.singleUse && l.awaitingUpgrade {
		p.mu.upgradeResponses.record(p.pacer, p.clock.exact()-l.idleSince, slowUpgrade)
	}
	p.upgradeRespondedLocked(l)
	p.dialForWaiters()
}

// upgradeRespondedLocked is landed with mu held, also of one that has none.
func (p *pool) upgradeRespondedLocked(l *upstreamConn) {
	if l.awaitingUpgrade {
		l.awaitingUpgrade = false
		p.mu.awaitingUpgrade--
	}
}
