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
	// waiting. hangingAfter is the corresponding time for a shard whose call has no result yet.
	waitingAfter = 2 * time.Second
	hangingAfter = 10 * time.Second
	// The backoff is how long a node does not get back a shard that its app failed to acquire. It
	// doubles with each failure, from defaultFirstBackoff to maxBackoff.
	defaultFirstBackoff = 30 * time.Second
	maxBackoff          = 10 * time.Minute
	// failureUpdateInterval is the time between two updates, so that shards that fail together are
	// reported together.
	failureUpdateInterval = time.Second
)

// acquireFailures tracks the shards that the app fails to acquire. It belongs to the node rather
// than the leader, so that the backoff survives a change of leader.
type acquireFailures struct {
	stuckAfter time.Duration // minimum time for which a shard must fail before it should move
	backoff    backoff

	shards map[shardmap.Shard]*failedShard

	// Values of the next heartbeat.
	reported     []shardmap.Shard // shards that this node should not own, ascending
	waitingCount int              // number of shards that have waited a long time for their acquire
	// acquiresNone is set if all recent attempts failed, so that the node should get no more
	// shards. A successful call clears it.
	acquiresNone bool

	// failureCount is the number of times that acquiresNone began or a probe failed. The backoff is
	// computed from it.
	failureCount int
	recoveredAt  time.Duration // when acquiresNone ended
	lastSuccess  time.Duration // when an acquire call last succeeded

	// A probe is an acquire call without shards. The node sends it to test whether its app can
	// acquire again, once it no longer owns any of the failed shards.
	probeAt  time.Duration // when the next probe is due; zero means that none is scheduled
	probeSeq uint64        // Seq of the running probe; zero means none

	updatesNeeded bool // update must be called at nextUpdateAt
	nextUpdateAt  time.Duration
}

// failedShard is a shard that the app has failed to acquire.
type failedShard struct {
	failureCount int           // number of failures, which determines the backoff
	stillFailing bool          // the node owns the shard, and the app still fails
	backoffUntil time.Duration // when the node may own the shard again; set once stillFailing is false
}

// newAcquireFailures returns the state before the first failure.
func newAcquireFailures(options *HookOptions) acquireFailures {
	failures := acquireFailures{stuckAfter: defaultStuckAfter, backoff: backoff{first: defaultFirstBackoff, longest: maxBackoff}}
	if options.StuckAfter > 0 {
		failures.stuckAfter = options.StuckAfter
	}
	if options.Backoff > 0 {
		failures.backoff = backoff{first: options.Backoff, longest: 8 * options.Backoff}
	}
	return failures
}

// backoff is a time that doubles from first to longest.
type backoff struct{ first, longest time.Duration }

// after returns the backoff after the given number of failures.
func (b backoff) after(failures int) time.Duration {
	doublings := min(failures-1, 10) // more would overflow, and exceed longest anyway
	return min(b.first<<doublings, b.longest)
}

// updateAcquireFailures updates the list of shards that the app fails to acquire, and starts a
// probe of the app if one is due. It runs every failureUpdateInterval while there are any.
func (m *hookMachine) updateAcquireFailures(now time.Duration) {
	failures := &m.acquireFailures
	if !failures.updatesNeeded {
		return
	}
	if now < failures.nextUpdateAt {
		m.wakeAt(failures.nextUpdateAt)
		return
	}
	probeDue := failures.update(now, m.shards, m.inputs.hasLease)
	mayProbe := m.inputs.hasLease && !m.inputs.stopping
	if probeDue && mayProbe {
		failures.probeSeq = m.startCall(now, HookAcquire, m.probeInstance(), nil)
	}
	if call := m.calls.bySeq[failures.probeSeq]; call != nil && !mayProbe {
		m.calls.cancel(call)
	}
	m.wakeAt(failures.nextUpdateAt)
}

// update updates the failures from the phases of all shards. It returns true if a probe is due.
func (af *acquireFailures) update(now time.Duration, shards []heldShard, hasLease bool) (probeDue bool) {
	counts := af.countAcquiring(now, shards, hasLease)
	af.waitingCount = counts.waiting
	af.updateFailedShards(now, shards)
	af.reported = af.shardsToReport(now)
	af.updateAcquiresNone(now, counts)
	probeDue = af.updateProbe(now, counts)
	mayFail := counts.acquiring > 0
	hasFailed := len(af.shards) > 0 || af.acquiresNone || af.failureCount > 0
	af.updatesNeeded = mayFail || hasFailed
	af.nextUpdateAt = now + failureUpdateInterval
	return probeDue
}

// acquireCounts counts the shards of a node by the progress of their acquire.
type acquireCounts struct {
	serving, acquiring int
	waiting, stuck     int           // of those that are acquiring
	earliestStuck      time.Duration // when the acquire of the first stuck shard began; the current time without any
}

// isStuck reports whether an acquiring shard should move to another node, because the app has failed
// to acquire it often enough and for long enough.
func (af *acquireFailures) isStuck(now time.Duration, held *heldShard) bool {
	age := now - held.phaseSince
	return held.acquireFailures >= stuckAttempts && age >= af.stuckAfter
}

// isWaiting reports whether an acquiring shard counts as waiting in heartbeats. The node must have
// a lease, because no call starts without one, so the wait would not be the app's fault.
func (af *acquireFailures) isWaiting(now time.Duration, held *heldShard) bool {
	age := now - held.phaseSince
	fails := held.acquireFailures > 0 && age >= min(waitingAfter, af.stuckAfter)
	hangs := age >= hangingAfter
	return fails || hangs
}

// countAcquiring counts the acquiring and serving shards, and marks the stuck ones.
func (af *acquireFailures) countAcquiring(now time.Duration, shards []heldShard, hasLease bool) acquireCounts {
	counts := acquireCounts{earliestStuck: now}
	for i := range shards {
		held := &shards[i]
		if held.phase == HookServing {
			counts.serving++
		}
		if held.phase != HookAcquiring {
			continue
		}
		counts.acquiring++
		if hasLease && af.isWaiting(now, held) {
			counts.waiting++
		}
		if af.isStuck(now, held) {
			counts.stuck++
			counts.earliestStuck = min(counts.earliestStuck, held.phaseSince)
			af.markStuck(shardmap.Shard(i))
		}
	}
	return counts
}

// updateFailedShards starts the backoff of shards that the node no longer acquires, and forgets the
// shards that the app has acquired, or that have not failed for a long time.
func (af *acquireFailures) updateFailedShards(now time.Duration, shards []heldShard) {
	for shard, failed := range af.shards {
		phase := shards[shard].phase
		switch {
		case phase == HookServing:
			delete(af.shards, shard)
		case failed.stillFailing && phase != HookAcquiring:
			failed.stillFailing, failed.backoffUntil = false, now+af.backoff.after(failed.failureCount)
		case !failed.stillFailing && now >= failed.backoffUntil+af.backoff.longest:
			delete(af.shards, shard)
		}
	}
}

// shardsToReport returns the shards that still fail or whose backoff is not over, ascending. It
// returns a new slice, because a heartbeat may still contain the previous one.
func (af *acquireFailures) shardsToReport(now time.Duration) []shardmap.Shard {
	var shards []shardmap.Shard
	for _, shard := range slices.Sorted(maps.Keys(af.shards)) {
		if failed := af.shards[shard]; failed.stillFailing || now < failed.backoffUntil {
			shards = append(shards, shard)
		}
	}
	return shards
}

// markStuck records a stuck shard. If MaxUnacquired shards are recorded already, it does nothing:
// the shard is recorded when the others have moved.
func (af *acquireFailures) markStuck(shard shardmap.Shard) {
	failed := af.shards[shard]
	if failed == nil {
		if len(af.shards) >= ack.MaxUnacquired {
			return
		}
		if af.shards == nil {
			af.shards = map[shardmap.Shard]*failedShard{}
		}
		failed = &failedShard{}
		af.shards[shard] = failed
	}
	if !failed.stillFailing {
		failed.stillFailing = true
		failed.failureCount++
	}
}

// updateAcquiresNone decides whether the app is unable to acquire anything: shards are stuck, and
// no call has succeeded since the acquire of the first of them began. A single stuck shard is proof
// only if no shard is serving.
func (af *acquireFailures) updateAcquiresNone(now time.Duration, counts acquireCounts) {
	if af.acquiresNone {
		return
	}
	noneSucceeded := af.lastSuccess < counts.earliestStuck
	isProof := counts.stuck > 1 || counts.stuck == 1 && counts.serving == 0
	if noneSucceeded && isProof {
		af.acquiresNone = true
		af.failureCount++
		af.probeAt = 0
		return
	}
	if af.failureCount > 0 && now-af.recoveredAt >= af.backoff.longest {
		af.failureCount = 0
	}
}

// updateProbe schedules the probe of a node whose app acquires nothing. It returns true if the
// probe is due. While a shard is stuck, its own calls are retried and no probe is needed.
func (af *acquireFailures) updateProbe(now time.Duration, counts acquireCounts) (due bool) {
	switch {
	case !af.acquiresNone:
	case counts.stuck > 0:
		af.probeAt = 0
	case af.probeAt == 0:
		af.probeAt = now + af.backoff.after(af.failureCount)
	default:
		return now >= af.probeAt && af.probeSeq == 0
	}
	return false
}

// callEnded applies the result of a call if it was the probe.
func (af *acquireFailures) callEnded(now time.Duration, call *runningCall, result HookResult) {
	if call.Seq != af.probeSeq {
		return
	}
	af.probeSeq = 0
	switch {
	case result.Err == nil:
		af.acquireSucceeded(now)
	case call.cancelledEarly(now):
		af.probeAt = now // repeat it when a probe may run again
	case af.acquiresNone:
		af.failureCount++
		af.probeAt = now + af.backoff.after(af.failureCount)
	}
}

// acquireSucceeded records a successful acquire call.
func (af *acquireFailures) acquireSucceeded(now time.Duration) {
	af.lastSuccess = now
	if af.acquiresNone {
		af.acquiresNone, af.recoveredAt = false, now
	}
}

// probeInstance returns the instance that gets a probe: the first one that may own shards.
func (m *hookMachine) probeInstance() shardmap.Instance {
	for _, member := range m.inputs.state.Committed().Members() {
		if member.ID == m.process.node {
			return member.Instances.All()[0]
		}
	}
	return 0
}
