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
	first, longest := defaultFirstBackoff, maxBackoff
	if o.Backoff > 0 {
		first, longest = o.Backoff, 8*o.Backoff
	}
	return min(first<<min(strikes-1, 10), longest)
}

func (o *HookOptions) stuckAfter() time.Duration {
	if o.StuckAfter > 0 {
		return o.StuckAfter
	}
	return defaultStuckAfter
}

// servesAny reports whether the app has acquired any shard.
func (m *hookMachine) servesAny() bool {
	return slices.ContainsFunc(m.acquired, func(epoch shardmap.Epoch) bool { return epoch > 0 })
}

// isStuck reports whether a shard should move to another node.
func (m *hookMachine) isStuck(now time.Duration, held *heldShard) bool {
	return held.phase == HookAcquiring && held.acquireFailures >= stuckAttempts && now-held.phaseSince >= m.options.stuckAfter()
}

// updateAcquireFailures updates the list of shards that the app fails to acquire. It runs
// every failureUpdateInterval while there are any.
func (m *hookMachine) updateAcquireFailures(now time.Duration) {
	failures := &m.acquireFailures
	if !failures.updatesNeeded {
		return
	}
	if now < failures.nextUpdateAt {
		m.wakeAt(failures.nextUpdateAt)
		return
	}
	acquiring, serving, stuck, earliestStuck := 0, 0, 0, now
	failures.waitingCount = 0
	for i := range m.shards {
		held := &m.shards[i]
		switch held.phase { //nolint:exhaustive // the other phases hold nothing that was acquired
		case HookServing:
			serving++
		case HookAcquiring:
			acquiring++
			if age := now - held.phaseSince; m.inputs.hasLease && (held.acquireFailures > 0 && age >= min(waitingAfter, m.options.stuckAfter()) || age >= hangingAfter) {
				failures.waitingCount++
			}
			if m.isStuck(now, held) {
				stuck++
				earliestStuck = min(earliestStuck, held.phaseSince)
				failures.markStuck(shardmap.Shard(i))
			}
		}
	}
	for shard, failed := range failures.shards {
		held := &m.shards[shard]
		switch {
		case held.phase == HookServing:
			delete(failures.shards, shard)
		case failed.stillFailing && (held.phase != HookAcquiring):
			failed.stillFailing, failed.backoffUntil = false, now+m.options.backoff(failed.strikes)
		case !failed.stillFailing && now >= failed.backoffUntil+m.options.backoff(64):
			delete(failures.shards, shard) // no recent failure
		}
	}
	failures.reported = failures.reported[:0:0]
	for _, shard := range slices.Sorted(maps.Keys(failures.shards)) {
		if failed := failures.shards[shard]; failed.stillFailing || now < failed.backoffUntil {
			failures.reported = append(failures.reported, shard)
		}
	}
	m.updateAcquiresNone(now, stuck, serving, failures.lastSuccess < earliestStuck)
	failures.updatesNeeded = acquiring > 0 || len(failures.shards) > 0 || failures.acquiresNone || failures.strikes > 0
	failures.nextUpdateAt = now + failureUpdateInterval
	m.wakeAt(failures.nextUpdateAt)
}

// markStuck records a stuck shard. If the map is full, the node reports the other shards
// first.
func (u *acquireFailureState) markStuck(shard shardmap.Shard) {
	failed := u.shards[shard]
	switch {
	case failed == nil && len(u.shards) >= ack.MaxUnacquired:
		return
	case failed == nil:
		failed = &failedShard{}
		if u.shards == nil {
			u.shards = map[shardmap.Shard]*failedShard{}
		}
		u.shards[shard] = failed
	}
	if !failed.stillFailing {
		failed.stillFailing = true
		failed.strikes++
	}
}

// updateAcquiresNone decides whether the app is unable to acquire anything. noneSucceeded means
// that no call has succeeded since the first stuck shard began to be acquired.
func (m *hookMachine) updateAcquiresNone(now time.Duration, stuck, serving int, noneSucceeded bool) {
	failures := &m.acquireFailures
	switch {
	case !failures.acquiresNone && noneSucceeded && (stuck > 1 || stuck == 1 && serving == 0):
		failures.acquiresNone, failures.strikes = true, failures.strikes+1
		failures.probeAt = 0
	case failures.acquiresNone && stuck > 0:
		failures.probeAt = 0 // its own shards are retried
	case failures.acquiresNone && failures.probeAt == 0:
		failures.probeAt = now + m.options.backoff(failures.strikes)
	case failures.acquiresNone && now >= failures.probeAt && failures.probeSeq == 0 && m.inputs.hasLease && !m.inputs.stopping:
		failures.probeSeq = m.startCall(now, HookAcquire, nil)
	case !failures.acquiresNone && failures.strikes > 0 && now-failures.recoveredAt >= m.options.backoff(64):
		failures.strikes = 0
	}
	if call := m.runningCalls[failures.probeSeq]; call != nil && (m.inputs.stopping || !m.inputs.hasLease) {
		m.cancel(call)
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
func (m *hookMachine) probeEnded(now time.Duration, call *runningCall, result HookResult) {
	failures := &m.acquireFailures
	if call.Seq != failures.probeSeq {
		return
	}
	failures.probeSeq = 0
	switch {
	case result.Err == nil:
		failures.acquireSucceeded(now)
	case call.cancelled && now < call.deadline: // cancelled, not failed
		failures.probeAt = now
	case failures.acquiresNone:
		failures.strikes++
		failures.probeAt = now + m.options.backoff(failures.strikes)
	}
}

// acquireReport returns the values that a heartbeat reports.
func (a *Agent) acquireReport() (unacquired []shardmap.Shard, waiting uint32, acquiresNone bool) {
	if a.hooks == nil {
		return nil, 0, false
	}
	failures := &a.hooks.acquireFailures
	return failures.reported, uint32(failures.waitingCount), failures.acquiresNone
}
