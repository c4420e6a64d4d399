package agent

import (
	"math"
	"slices"
	"time"

	"shardway/shardmap"
)

const (
	// The pause between two attempts doubles from minRetryPause to maxRetryPause.
	minRetryPause = 100 * time.Millisecond
	maxRetryPause = 2 * time.Second
	// If a call gets no response, the next calls for its shards are smaller by the factor
	// batchDivisor, so that a single shard that makes the app hang soon delays only a few others.
	batchDivisor = 16
)

// startCalls starts the calls that are due. The routing has already been published, so no further
// request can arrive for a shard that stopped serving.
func (m *hookMachine) startCalls(now time.Duration) {
	var due [HookLost + 1][]shardmap.Shard // by kind
	for i := range m.shards {
		shard := shardmap.Shard(i)
		if kind := m.dueCall(now, shard, &m.shards[i]); kind != 0 {
			due[kind] = append(due[kind], shard)
		}
	}
	for kind := HookRelease; kind <= HookLost; kind++ {
		m.startCallsOf(now, kind, due[kind])
	}
}

// startCallsOf starts calls of one kind for the due shards, which are sorted. Up to MaxHookCalls
// calls of one kind run at a time for each instance. Kinds have separate limits, because releases
// have little time while acquires may hang for a long time.
func (m *hookMachine) startCallsOf(now time.Duration, kind HookKind, due []shardmap.Shard) {
	// Shards that found no free call in the last update come first, because repeatedly failing
	// shards would otherwise starve them.
	first, _ := slices.BinarySearch(due, m.firstUnstarted[kind])
	m.firstUnstarted[kind] = 0
	hasUnstarted := false
	for _, shards := range m.byApp(due[first:], due[:first]) {
		instance := m.shards[shards[0]].instance
		for len(shards) > 0 {
			if m.calls.countOf(kind, instance) >= MaxHookCalls {
				if !hasUnstarted {
					hasUnstarted, m.firstUnstarted[kind] = true, shards[0]
				}
				break
			}
			count := batchSize(m.shards, shards)
			m.startCall(now, kind, instance, shards[:count])
			shards = shards[count:]
		}
	}
}

// appShards identifies the shards that one call can name: an instance holds them, and they belong to one
// service.
type appShards struct {
	instance   shardmap.Instance
	service    string
	firstShard shardmap.Shard
}

// byApp splits the due shards by the instance that holds them, and by their service. The order of the
// shards of one part remains, and the parts follow each other in the order of their first shards.
func (m *hookMachine) byApp(parts ...[]shardmap.Shard) [][]shardmap.Shard {
	var groups [][]shardmap.Shard
	for _, part := range parts {
		if len(part) == 0 {
			continue
		}
		groupOf := map[appShards]int{}
		for _, shard := range part {
			held := &m.shards[shard]
			app := appShards{held.instance, held.service, held.firstShard}
			i, known := groupOf[app]
			if !known {
				i = len(groups)
				groupOf[app] = i
				groups = append(groups, nil)
			}
			groups[i] = append(groups[i], shard)
		}
	}
	return groups
}

// dueCall returns the kind of call that can start for a shard now; zero means none.
func (m *hookMachine) dueCall(now time.Duration, shard shardmap.Shard, held *heldShard) HookKind {
	kind := m.neededCall(held)
	if kind == 0 {
		return 0
	}
	if now < held.nextAttempt {
		m.wakeAt(held.nextAttempt)
		return 0
	}
	givesUpShard := kind == HookRelease || kind == HookLost
	if givesUpShard && !m.mayGiveUp(now, kind, shard, held) {
		return 0
	}
	return kind
}

// neededCall returns the kind of call that the phase of a shard requires; zero if there is none, or
// if the call must wait for a lease, for the log or for another call.
func (m *hookMachine) neededCall(held *heldShard) HookKind {
	switch {
	case held.callSeq != 0: // two calls must not name one shard
		return 0
	case held.phase == HookAcquiring && m.inputs.hasLease && m.process.hasPreviousReleases(m.inputs.state, held.epoch):
		return HookAcquire
	case held.phase == HookReleasing && m.inputs.mayRelease:
		return HookRelease
	case held.isNotHeld() && held.needsLostCall:
		return HookLost
	}
	return 0
}

// mayGiveUp reports whether a release call or a lost call may start for a shard now.
func (m *hookMachine) mayGiveUp(now time.Duration, kind HookKind, shard shardmap.Shard, held *heldShard) bool {
	if now >= m.callDeadline(shard) {
		return false // the acknowledgement must not wait for another call
	}
	if kind == HookRelease && m.isReleaseOverdue(now, shard) {
		return false // a safe drain keeps the shard, and the remaining time is reserved for lost calls
	}
	// Requests admitted under this ownership epoch may still reach the app.
	if m.ownershipOf(shard).isOwnerUnder(held.epoch) && m.options.App.CountRequests(shard) > 0 {
		m.inputsChanged = true // the end of the requests triggers a poll
		return false
	}
	return true
}

// batchSize returns how many of the first shards in due the next call may name: at least 1, and no
// more than the maxBatch of any of them.
func batchSize(shards []heldShard, due []shardmap.Shard) int {
	limit := MaxHookShards
	for i, shard := range due {
		limit = min(limit, shards[shard].maxBatch)
		if i >= limit {
			return max(i, 1)
		}
	}
	return len(due)
}

// startCall starts a call to the instance that holds the shards, and returns its Seq. An acquire call
// without shards is a probe.
func (m *hookMachine) startCall(now time.Duration, kind HookKind, instance shardmap.Instance, shards []shardmap.Shard) (seq uint64) {
	state := m.inputs.state
	call := &runningCall{HookCall: HookCall{
		Kind: kind, Instance: instance, Seq: m.calls.nextSeq(m.process.boot),
		Map: state.Proposed().Epoch(), Timeout: m.callTimeout(now, kind, shards),
	}}
	if kind == HookAcquire {
		call.Map = state.Committed().Epoch()
		m.acquireFailures.updatesNeeded = true
	}
	for _, shard := range shards {
		held := &m.shards[shard]
		held.callSeq = call.Seq
		call.Service, call.First = held.service, held.firstShard // the same for all shards
		callShard := HookShard{Shard: shard, Epoch: held.epoch}
		switch kind {
		case HookAcquire:
			m.fillAcquire(&callShard, held)
		case HookRelease:
			m.fillRelease(&callShard, held)
		case HookLost:
		}
		call.Shards = append(call.Shards, callShard)
	}
	call.deadline = now + call.Timeout
	m.calls.start(call)
	return call.Seq
}

// callTimeout returns the timeout of a call for the shards. A release call leaves time for a lost
// call, which follows if the release fails.
func (m *hookMachine) callTimeout(now time.Duration, kind HookKind, shards []shardmap.Shard) time.Duration {
	if kind == HookAcquire {
		return m.options.AcquireTimeout
	}
	deadline := time.Duration(math.MaxInt64)
	for _, shard := range shards {
		deadline = min(deadline, m.callDeadline(shard))
	}
	if kind == HookRelease {
		deadline -= m.deadlines.lostCallReserve()
	}
	return min(m.deadlines.attemptTimeout(), deadline-now)
}

// fillAcquire sets the fields of an acquire call for one shard. The call voids an earlier release
// by this process, because the app may change the state from now on.
func (m *hookMachine) fillAcquire(callShard *HookShard, held *heldShard) {
	shard := callShard.Shard
	callShard.From = m.inputs.state.PreviousOwner(shard)
	callShard.Again = held.appMayHold || m.process.mayHaveServedBefore(held.epoch)
	if note, from, ok := m.process.inheritedNote(m.inputs.state, shard, held, held.epoch); ok {
		callShard.From, callShard.Note, callShard.Released = from, note, true
	}
	held.released, held.note = false, nil
	held.appMayHold = true
}

// fillRelease sets the fields of a release call for one shard.
func (m *hookMachine) fillRelease(callShard *HookShard, held *heldShard) {
	held.releaseAttempted = true
	callShard.Cut = held.abortedRequests
	callShard.To = m.nextOwner(callShard.Shard)
}

// applyResult applies the result of a call to its shards. The lease, the committed map and the last
// proposal may have changed since the call began, so it uses those of the current update.
func (m *hookMachine) applyResult(now time.Duration, result HookResult) {
	call := m.calls.remove(result.Seq)
	if call == nil {
		return
	}
	m.refusesConns[call.Instance] = result.Refused
	m.acquireFailures.callEnded(now, call, result)
	for _, callShard := range call.Shards {
		held := &m.shards[callShard.Shard]
		held.callSeq = 0
		reason, failed := result.failure(callShard.Shard)
		if !failed {
			m.callSucceeded(now, call, result, callShard.Shard, held)
			continue
		}
		respondedInTime := !call.cancelled && now < call.deadline
		if !call.cancelledEarly(now) {
			held.recordError(reason, respondedInTime)
		}
		m.callFailed(now, call, result, callShard.Shard, held)
	}
}

// failure returns the error text of a shard, if the call has failed for it.
func (hr *HookResult) failure(shard shardmap.Shard) (reason string, failed bool) {
	if hr.Err != nil {
		return hr.Err.Error(), true
	}
	reason, failed = hr.Failed[shard]
	return reason, failed
}

// callSucceeded applies a success to one shard. The node serves an acquired shard from the next
// update in which it holds a lease. If the lease has lapsed since the call began, no other node can
// have owned the shard until the lease is renewed.
func (m *hookMachine) callSucceeded(now time.Duration, call *runningCall, result HookResult, shard shardmap.Shard, held *heldShard) {
	switch call.Kind {
	case HookAcquire:
		ownership := m.ownershipOf(shard)
		if ownership.keepsShard && ownership.isOwnerUnder(held.epoch) {
			held.appAcquired = true
		}
		m.acquireFailures.acquireSucceeded(now)
	case HookRelease:
		m.reportReleaseEnd(shard, held, ReleaseOK, "", false)
		held.setPhase(now, HookNotHeld)
		held.appMayHold, held.needsLostCall = false, false
		held.released, held.note = true, result.Notes[shard]
		if result.Absent[shard] { // the app did not hold it, so there is no final state
			held.released, held.note = false, nil
		}
	case HookLost:
		held.appMayHold, held.needsLostCall = false, false
	}
}

// callFailed applies a failure to one shard, or a result that does not mention the shard. A
// cancelled call is repeated immediately if the shard still needs it, and does not count as a
// failure of the app.
func (m *hookMachine) callFailed(now time.Duration, call *runningCall, result HookResult, shard shardmap.Shard, held *heldShard) {
	cancelledEarly := call.cancelledEarly(now)
	held.retryPause = min(max(2*held.retryPause, minRetryPause), maxRetryPause)
	if cancelledEarly {
		held.retryPause = 0
	}
	held.nextAttempt = now + held.retryPause
	if call.Kind == HookAcquire && !cancelledEarly {
		timedOut := now >= call.deadline
		isOnlyCause := len(call.Shards) == 1 || !m.servesAny()
		held.countAcquireFailure(timedOut && isOnlyCause)
	}
	if result.Refused {
		m.abandonAfterRefusal(now, call.Kind, shard, held)
		return
	}
	gotNoResponse := result.Err != nil && !cancelledEarly
	if gotNoResponse {
		held.maxBatch = max(1, min(held.maxBatch, len(call.Shards))/batchDivisor)
	}
}

// servesAny reports whether the node serves any shard.
func (m *hookMachine) servesAny() bool {
	return slices.ContainsFunc(m.acquired, func(epoch shardmap.Epoch) bool { return epoch > 0 })
}

// abandonAfterRefusal ends a release or lost call when the app process is gone along with its
// state. A releasing shard moves anyway. An acquire call is retried.
func (m *hookMachine) abandonAfterRefusal(now time.Duration, kind HookKind, shard shardmap.Shard, held *heldShard) {
	if kind == HookAcquire {
		return
	}
	if kind == HookRelease {
		m.reportUnreleased(now, shard, held)
		held.abandon(now)
	}
	held.needsLostCall = false
}

// HookEnded reports the result of a call. The caller must call Poll afterwards.
func (a *Agent) HookEnded(result HookResult) {
	if m := a.hooks; m != nil {
		m.pendingResults, m.inputsChanged = append(m.pendingResults, result), true
	}
}

// ShardNotAcquired reports that the app got a request for a shard that it does not hold under the
// given ownership epoch, and did not process it. The app gets another acquire call, and the node
// admits no request for the shard until that succeeds. The caller must call Poll afterwards.
func (a *Agent) ShardNotAcquired(shard shardmap.Shard, epoch shardmap.Epoch) {
	if m := a.hooks; m != nil && int(shard) < len(m.shards) {
		m.reportedNotAcquired, m.inputsChanged = append(m.reportedNotAcquired, shardEpoch{shard, epoch}), true
	}
}

// HeldShards returns the shards that the app holds or may hold, or that it will acquire.
func (a *Agent) HeldShards() []HeldShardView {
	if a.hooks == nil {
		return nil
	}
	var views []HeldShardView
	for i := range a.hooks.shards {
		if held := &a.hooks.shards[i]; !held.isNotHeld() {
			views = append(views, HeldShardView{Shard: shardmap.Shard(i), Epoch: held.epoch, Instance: held.instance, Phase: held.phase, Since: held.phaseSince, Err: held.lastError})
		}
	}
	return views
}
