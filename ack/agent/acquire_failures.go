package agent

import (
	"maps"
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

const (
	// A shard moves to another node after stuckAttempts failed acquire calls over at least
	// defaultStuckAfter.
	stuckAttempts     = 3
	defaultStuckAfter = 5 * time.Second
	// waitingAfter is the time after which a shard with a failed acquire call is reported as
	// waiting. hangingAfter is the time for a shard whose call has no result yet.
	waitingAfter = 2 * time.Second
	hangingAfter = 10 * time.Second
	// The backoff is the time for which a node does not get back a shard that its app failed to
	// acquire. It doubles with each failure, from defaultBackoff to maxBackoff.
	defaultBackoff = 30 * time.Second
	maxBackoff     = 10 * time.Minute
	// updateInterval is the time between two updates, so that shards that fail together are
	// reported together.
	updateInterval = time.Second
)

// acquireFailureState tracks the shards that the app fails to acquire. It is part of the node and
// not of the leader, so that the backoff continues under a new leader.
type acquireFailureState struct {
	shards map[shardmap.Shard]*failedShard
	// reported and waitingCount are the values that heartbeats report.
	reported     []shardmap.Shard
	waitingCount int

	// unable means that all recent attempts failed, so the node should get no more shards. It
	// ends with a successful call. If the node no longer owns any of the failed shards, it sends a
	// probe at probeAt: an acquire call without shards, which tests whether the app can acquire.
	unable      bool
	strikes     int
	probeAt     time.Duration
	probeSeq    uint64        // Seq of the running probe; zero means none
	recoveredAt time.Duration // when unable ended
	lastSuccess time.Duration // of an acquire call

	active     bool // updates are needed
	nextUpdate time.Duration
}

// failedShard is a shard that the app has failed to acquire. strikes is the number of its failures,
// from which the backoff is computed.
type failedShard struct {
	strikes      int
	failing      bool          // the node owns it, and the app still fails
	backoffUntil time.Duration // set once it is no longer failing
}

// backoff returns the backoff after the given number of failures.
func (o *HookOptions) backoff(strikes int) time.Duration {
	first, most := defaultBackoff, maxBackoff
	if o.Backoff > 0 {
		first, most = o.Backoff, 8*o.Backoff
	}
	return min(first<<min(strikes-1, 10), most)
}

func (o *HookOptions) stuckAfter() time.Duration {
	if o.StuckAfter > 0 {
		return o.StuckAfter
	}
	return defaultStuckAfter
}

// servesAny reports whether the app has acquired any shard.
func (m *hookMachine) servesAny() bool {
	return slices.ContainsFunc(m.acquired, func(e shardmap.Epoch) bool { return e > 0 })
}

// isStuck reports whether a shard should move to another node.
func (m *hookMachine) isStuck(now time.Duration, h *heldShard) bool {
	return h.phase == HookAcquiring && h.failures >= stuckAttempts && now-h.since >= m.o.stuckAfter()
}

// updateAcquireFailures updates the list of shards that the app fails to acquire. It runs
// every updateInterval while there are any.
func (m *hookMachine) updateAcquireFailures(now time.Duration) {
	u := &m.acquireFailures
	if !u.active {
		return
	}
	if now < u.nextUpdate {
		m.wakeAt(u.nextUpdate)
		return
	}
	acquiring, serving, stuck, first := 0, 0, 0, now
	u.waitingCount = 0
	for i := range m.shards {
		h := &m.shards[i]
		switch h.phase { //nolint:exhaustive // the other phases hold nothing that was acquired
		case HookServing:
			serving++
		case HookAcquiring:
			acquiring++
			if age := now - h.since; m.seen.mayServe && (h.failures > 0 && age >= min(waitingAfter, m.o.stuckAfter()) || age >= hangingAfter) {
				u.waitingCount++
			}
			if m.isStuck(now, h) {
				stuck++
				first = min(first, h.since)
				u.markStuck(shardmap.Shard(i))
			}
		}
	}
	for s, x := range u.shards {
		h := &m.shards[s]
		switch {
		case h.phase == HookServing:
			delete(u.shards, s)
		case x.failing && (h.phase != HookAcquiring):
			x.failing, x.backoffUntil = false, now+m.o.backoff(x.strikes)
		case !x.failing && now >= x.backoffUntil+m.o.backoff(64):
			delete(u.shards, s) // no recent failure
		}
	}
	u.reported = u.reported[:0:0]
	for _, s := range slices.Sorted(maps.Keys(u.shards)) {
		if x := u.shards[s]; x.failing || now < x.backoffUntil {
			u.reported = append(u.reported, s)
		}
	}
	m.updateUnable(now, stuck, serving, u.lastSuccess < first)
	u.active = acquiring > 0 || len(u.shards) > 0 || u.unable || u.strikes > 0
	u.nextUpdate = now + updateInterval
	m.wakeAt(u.nextUpdate)
}

// markStuck records a stuck shard. If the map is full, the node reports the other shards
// first.
func (u *acquireFailureState) markStuck(s shardmap.Shard) {
	x := u.shards[s]
	switch {
	case x == nil && len(u.shards) >= ack.MaxUnacquired:
		return
	case x == nil:
		x = &failedShard{}
		if u.shards == nil {
			u.shards = map[shardmap.Shard]*failedShard{}
		}
		u.shards[s] = x
	}
	if !x.failing {
		x.failing = true
		x.strikes++
	}
}

// updateUnable decides whether the app is unable to acquire anything. inVain means that no
// call has succeeded since the first stuck shard began to be acquired.
func (m *hookMachine) updateUnable(now time.Duration, stuck, serving int, inVain bool) {
	u := &m.acquireFailures
	switch {
	case !u.unable && inVain && (stuck > 1 || stuck == 1 && serving == 0):
		u.unable, u.strikes = true, u.strikes+1
		u.probeAt = 0
	case u.unable && stuck > 0:
		u.probeAt = 0 // its own shards are retried
	case u.unable && u.probeAt == 0:
		u.probeAt = now + m.o.backoff(u.strikes)
	case u.unable && now >= u.probeAt && u.probeSeq == 0 && m.seen.mayServe && !m.seen.stopping:
		u.probeSeq = m.startCall(now, HookAcquire, nil)
	case !u.unable && u.strikes > 0 && now-u.recoveredAt >= m.o.backoff(64):
		u.strikes = 0
	}
	if c := m.running[u.probeSeq]; c != nil && (m.seen.stopping || !m.seen.mayServe) {
		m.cancel(c)
	}
}

// acquireSucceeded records a successful acquire call.
func (u *acquireFailureState) acquireSucceeded(now time.Duration) {
	u.lastSuccess = now
	if u.unable {
		u.unable, u.recoveredAt = false, now
	}
}

// probeEnded applies the result of a probe.
func (m *hookMachine) probeEnded(now time.Duration, c *runningCall, r HookResult) {
	u := &m.acquireFailures
	if c.Seq != u.probeSeq {
		return
	}
	u.probeSeq = 0
	switch {
	case r.Err == nil:
		u.acquireSucceeded(now)
	case c.cancelled && now < c.deadline: // cancelled, not failed
		u.probeAt = now
	case u.unable:
		u.strikes++
		u.probeAt = now + m.o.backoff(u.strikes)
	}
}

// acquireReport returns the values that a heartbeat reports.
func (a *Agent) acquireReport() (list []shardmap.Shard, waiting uint32, unable bool) {
	if a.hooks == nil {
		return nil, 0, false
	}
	u := &a.hooks.acquireFailures
	return u.reported, uint32(u.waitingCount), u.unable
}
