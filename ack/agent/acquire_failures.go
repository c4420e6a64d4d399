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
	// acquire. It doubles with each failure, from defaultFirstBackoff to maxBackoff.
	defaultFirstBackoff = 30 * time.Second
	maxBackoff          = 10 * time.Minute
	// failureUpdateInterval is the time between two updates, so that shards that fail together are
	// reported together.
	failureUpdateInterval = time.Second
)

// acquireFailureState tracks the shards that the app fails to acquire. It is part of the node and
// not of the leader, so that the backoff continues under a new leader.
type acquireFailureState struct {
	shards map[shardmap.Shard]*failedShard
	// reported and waitingCount are the values that heartbeats report.
	reported     []shardmap.Shard
	waitingCount int

	// acquiresNone means that all recent attempts failed, so the node should get no more shards. It
	// ends with a successful call. If the node no longer owns any of the failed shards, it sends a
	// probe at probeAt: an acquire call without shards, which tests whether the app can acquire.
	acquiresNone bool
	strikes      int
	probeAt      time.Duration
	probeSeq     uint64        // Seq of the running probe; zero means none
	recoveredAt  time.Duration // when unable ended
	lastSuccess  time.Duration // of an acquire call

	updatesNeeded bool // updates are needed
	nextUpdateAt  time.Duration
}

// failedShard is a shard that the app has failed to acquire. strikes is the number of its failures,
// from which the backoff is computed.
type failedShard struct {
	strikes      int
	stillFailing bool          // the node owns it, and the app still fails
	backoffUntil time.Duration // set once it is no longer failing
}

// backoff returns the backoff after the given number of failures.
func (o *HookOptions) backoff(strikes int) time.Duration {
	first, most := defaultFirstBackoff, maxBackoff
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
	return h.phase == HookAcquiring && h.acquireFailures >= stuckAttempts && now-h.phaseSince >= m.options.stuckAfter()
}

// updateAcquireFailures updates the list of shards that the app fails to acquire. It runs
// every failureUpdateInterval while there are any.
func (m *hookMachine) updateAcquireFailures(now time.Duration) {
	u := &m.acquireFailures
	if !u.updatesNeeded {
		return
	}
	if now < u.nextUpdateAt {
		m.wakeAt(u.nextUpdateAt)
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
			if age := now - h.phaseSince; m.inputs.hasLease && (h.acquireFailures > 0 && age >= min(waitingAfter, m.options.stuckAfter()) || age >= hangingAfter) {
				u.waitingCount++
			}
			if m.isStuck(now, h) {
				stuck++
				first = min(first, h.phaseSince)
				u.markStuck(shardmap.Shard(i))
			}
		}
	}
	for s, x := range u.shards {
		h := &m.shards[s]
		switch {
		case h.phase == HookServing:
			delete(u.shards, s)
		case x.stillFailing && (h.phase != HookAcquiring):
			x.stillFailing, x.backoffUntil = false, now+m.options.backoff(x.strikes)
		case !x.stillFailing && now >= x.backoffUntil+m.options.backoff(64):
			delete(u.shards, s) // no recent failure
		}
	}
	u.reported = u.reported[:0:0]
	for _, s := range slices.Sorted(maps.Keys(u.shards)) {
		if x := u.shards[s]; x.stillFailing || now < x.backoffUntil {
			u.reported = append(u.reported, s)
		}
	}
	m.updateAcquiresNone(now, stuck, serving, u.lastSuccess < first)
	u.updatesNeeded = acquiring > 0 || len(u.shards) > 0 || u.acquiresNone || u.strikes > 0
	u.nextUpdateAt = now + failureUpdateInterval
	m.wakeAt(u.nextUpdateAt)
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
	if !x.stillFailing {
		x.stillFailing = true
		x.strikes++
	}
}

// updateAcquiresNone decides whether the app is unable to acquire anything. inVain means that no
// call has succeeded since the first stuck shard began to be acquired.
func (m *hookMachine) updateAcquiresNone(now time.Duration, stuck, serving int, inVain bool) {
	u := &m.acquireFailures
	switch {
	case !u.acquiresNone && inVain && (stuck > 1 || stuck == 1 && serving == 0):
		u.acquiresNone, u.strikes = true, u.strikes+1
		u.probeAt = 0
	case u.acquiresNone && stuck > 0:
		u.probeAt = 0 // its own shards are retried
	case u.acquiresNone && u.probeAt == 0:
		u.probeAt = now + m.options.backoff(u.strikes)
	case u.acquiresNone && now >= u.probeAt && u.probeSeq == 0 && m.inputs.hasLease && !m.inputs.stopping:
		u.probeSeq = m.startCall(now, HookAcquire, nil)
	case !u.acquiresNone && u.strikes > 0 && now-u.recoveredAt >= m.options.backoff(64):
		u.strikes = 0
	}
	if c := m.runningCalls[u.probeSeq]; c != nil && (m.inputs.stopping || !m.inputs.hasLease) {
		m.cancel(c)
	}
}

// acquireSucceeded records a successful acquire call.
func (u *acquireFailureState) acquireSucceeded(now time.Duration) {
	u.lastSuccess = now
	if u.acquiresNone {
		u.acquiresNone, u.recoveredAt = false, now
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
	case u.acquiresNone:
		u.strikes++
		u.probeAt = now + m.options.backoff(u.strikes)
	}
}

// acquireReport returns the values that a heartbeat reports.
func (a *Agent) acquireReport() (list []shardmap.Shard, waiting uint32, unable bool) {
	if a.hooks == nil {
		return nil, 0, false
	}
	u := &a.hooks.acquireFailures
	return u.reported, uint32(u.waitingCount), u.acquiresNone
}
