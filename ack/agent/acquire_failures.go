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

	// Values of the next heartbeat.
	reported     []shardmap.Shard // shards that this node should not own, ascending
	waitingCount int              // number of shards that wait for their acquire for a long time
	// acquiresNone means that all recent attempts failed, so the node should get no more shards. It
	// ends with a successful call.
	acquiresNone bool

	// strikes is the number of times that acquiresNone began or a probe failed. The backoff is
	// computed from it.
	strikes     int
	recoveredAt time.Duration // when acquiresNone ended
	lastSuccess time.Duration // when an acquire call last succeeded

	// A probe is an acquire call without shards. The node sends it to test whether its app can
	// acquire again, once it no longer owns any of the failed shards.
	probeAt  time.Duration // when the next probe is due; zero means that none is scheduled
	probeSeq uint64        // Seq of the running probe; zero means none

	updatesNeeded bool // updateAcquireFailures must run at nextUpdateAt
	nextUpdateAt  time.Duration
}

// failedShard is a shard that the app has failed to acquire.
type failedShard struct {
	strikes      int           // number of its failures, from which the backoff is computed
	stillFailing bool          // the node owns the shard, and the app still fails
	backoffUntil time.Duration // when the node may own the shard again; set once stillFailing is false
}

// backoff returns the backoff after the given number of failures.
func (o *HookOptions) backoff(strikes int) time.Duration {
	first := defaultFirstBackoff
	if o.Backoff > 0 {
		first = o.Backoff
	}
	doublings := min(strikes-1, 10) // more would overflow, and exceed longestBackoff anyway
	return min(first<<doublings, o.longestBackoff())
}

// longestBackoff returns the limit of backoff.
func (o *HookOptions) longestBackoff() time.Duration {
	if o.Backoff > 0 {
		return 8 * o.Backoff
	}
	return maxBackoff
}

// stuckAfter returns the minimum time for which a shard must fail before it should move.
func (o *HookOptions) stuckAfter() time.Duration {
	if o.StuckAfter > 0 {
		return o.StuckAfter
	}
	return defaultStuckAfter
}

// servesAny reports whether the node serves any shard.
func (m *hookMachine) servesAny() bool {
	return slices.ContainsFunc(m.acquired, func(epoch shardmap.Epoch) bool { return epoch > 0 })
}

// isStuck reports whether an acquiring shard should move to another node, because the app has failed
// to acquire it often enough and for long enough.
func (m *hookMachine) isStuck(now time.Duration, held *heldShard) bool {
	age := now - held.phaseSince
	return held.acquireFailures >= stuckAttempts && age >= m.options.stuckAfter()
}

// isWaiting reports whether an acquiring shard counts as waiting in heartbeats. Without a lease no
// call starts, so the wait is not due to the app.
func (m *hookMachine) isWaiting(now time.Duration, held *heldShard) bool {
	if !m.inputs.hasLease {
		return false
	}
	age := now - held.phaseSince
	fails := held.acquireFailures > 0 && age >= min(waitingAfter, m.options.stuckAfter())
	hangs := age >= hangingAfter
	return fails || hangs
}

// countAcquireFailure counts a failed acquire call of a shard. A timeout that only this shard can
// have caused makes the shard stuck at once: AcquireTimeout is long, so the node does not wait for
// more failures.
func (m *hookMachine) countAcquireFailure(now time.Duration, call *runningCall, held *heldShard) {
	held.acquireFailures++
	timedOut := now >= call.deadline
	if timedOut && (len(call.Shards) == 1 || !m.servesAny()) {
		held.acquireFailures = max(held.acquireFailures, stuckAttempts)
	}
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
	counts := m.countAcquiring(now)
	failures.waitingCount = counts.waiting
	m.updateFailedShards(now)
	failures.reported = failures.shardsToReport(now)
	m.updateAcquiresNone(now, counts)
	m.updateProbe(now, counts)
	mayFail := counts.acquiring > 0
	hasFailed := len(failures.shards) > 0 || failures.acquiresNone || failures.strikes > 0
	failures.updatesNeeded = mayFail || hasFailed
	failures.nextUpdateAt = now + failureUpdateInterval
	m.wakeAt(failures.nextUpdateAt)
}

// acquireCounts counts the shards of a node by the progress of their acquire.
type acquireCounts struct {
	serving, acquiring int
	waiting, stuck     int           // of those that are acquiring
	earliestStuck      time.Duration // when the acquire of the first stuck shard began; the present time without any
}

// countAcquiring counts the acquiring and serving shards, and marks the stuck ones.
func (m *hookMachine) countAcquiring(now time.Duration) acquireCounts {
	counts := acquireCounts{earliestStuck: now}
	for i := range m.shards {
		held := &m.shards[i]
		if held.phase == HookServing {
			counts.serving++
		}
		if held.phase != HookAcquiring {
			continue
		}
		counts.acquiring++
		if m.isWaiting(now, held) {
			counts.waiting++
		}
		if m.isStuck(now, held) {
			counts.stuck++
			counts.earliestStuck = min(counts.earliestStuck, held.phaseSince)
			m.acquireFailures.markStuck(shardmap.Shard(i))
		}
	}
	return counts
}

// updateFailedShards starts the backoff of shards that the node no longer acquires, and forgets the
// shards that the app has acquired, or that have not failed for a long time.
func (m *hookMachine) updateFailedShards(now time.Duration) {
	failures := &m.acquireFailures
	for shard, failed := range failures.shards {
		phase := m.shards[shard].phase
		switch {
		case phase == HookServing:
			delete(failures.shards, shard)
		case failed.stillFailing && phase != HookAcquiring:
			failed.stillFailing, failed.backoffUntil = false, now+m.options.backoff(failed.strikes)
		case !failed.stillFailing && now >= failed.backoffUntil+m.options.longestBackoff():
			delete(failures.shards, shard)
		}
	}
}

// shardsToReport returns the shards that still fail or whose backoff is not over, ascending. It
// returns a new slice, because a heartbeat may still contain the previous one.
func (f *acquireFailureState) shardsToReport(now time.Duration) []shardmap.Shard {
	var shards []shardmap.Shard
	for _, shard := range slices.Sorted(maps.Keys(f.shards)) {
		if failed := f.shards[shard]; failed.stillFailing || now < failed.backoffUntil {
			shards = append(shards, shard)
		}
	}
	return shards
}

// markStuck records a stuck shard. If MaxUnacquired shards are recorded already, it does nothing:
// the shard is recorded when the others have moved.
func (f *acquireFailureState) markStuck(shard shardmap.Shard) {
	failed := f.shards[shard]
	if failed == nil {
		if len(f.shards) >= ack.MaxUnacquired {
			return
		}
		if f.shards == nil {
			f.shards = map[shardmap.Shard]*failedShard{}
		}
		failed = &failedShard{}
		f.shards[shard] = failed
	}
	if !failed.stillFailing {
		failed.stillFailing = true
		failed.strikes++
	}
}

// updateAcquiresNone decides whether the app is unable to acquire anything: shards are stuck, and
// no call has succeeded since the acquire of the first of them began. A single stuck shard is proof
// only if no shard serves.
func (m *hookMachine) updateAcquiresNone(now time.Duration, counts acquireCounts) {
	failures := &m.acquireFailures
	if failures.acquiresNone {
		return
	}
	noneSucceeded := failures.lastSuccess < counts.earliestStuck
	isProof := counts.stuck > 1 || counts.stuck == 1 && counts.serving == 0
	if noneSucceeded && isProof {
		failures.acquiresNone = true
		failures.strikes++
		failures.probeAt = 0
		return
	}
	if failures.strikes > 0 && now-failures.recoveredAt >= m.options.longestBackoff() {
		failures.strikes = 0
	}
}

// mayProbe reports whether a probe may run.
func (m *hookMachine) mayProbe() bool { return m.inputs.hasLease && !m.inputs.stopping }

// updateProbe schedules and starts the probe of a node whose app acquires nothing. As long as a
// shard is stuck, its own calls are repeated, and no probe is needed.
func (m *hookMachine) updateProbe(now time.Duration, counts acquireCounts) {
	failures := &m.acquireFailures
	switch {
	case !failures.acquiresNone:
	case counts.stuck > 0:
		failures.probeAt = 0
	case failures.probeAt == 0:
		failures.probeAt = now + m.options.backoff(failures.strikes)
	case now >= failures.probeAt && failures.probeSeq == 0 && m.mayProbe():
		failures.probeSeq = m.startCall(now, HookAcquire, nil)
	}
	if call := m.runningCalls[failures.probeSeq]; call != nil && !m.mayProbe() {
		m.cancel(call)
	}
}

// probeEnded applies the result of a call, if the call is the probe.
func (m *hookMachine) probeEnded(now time.Duration, call *runningCall, result HookResult) {
	failures := &m.acquireFailures
	if call.Seq != failures.probeSeq {
		return
	}
	failures.probeSeq = 0
	switch {
	case result.Err == nil:
		failures.acquireSucceeded(now)
	case call.cancelledEarly(now):
		failures.probeAt = now // repeat it when a probe may run again
	case failures.acquiresNone:
		failures.strikes++
		failures.probeAt = now + m.options.backoff(failures.strikes)
	}
}

// acquireSucceeded records a successful acquire call.
func (f *acquireFailureState) acquireSucceeded(now time.Duration) {
	f.lastSuccess = now
	if f.acquiresNone {
		f.acquiresNone, f.recoveredAt = false, now
	}
}
