package agent

import (
	"math"
	"slices"
	"time"

	"shardway/shardmap"
)

// startCalls starts the calls that are due. The routing has been published before, so no
// further request can arrive for a shard that stopped serving.
func (m *hookMachine) startCalls(now time.Duration) {
	var due [HookLost + 1][]shardmap.Shard
	for s := range m.shards {
		if kind := m.dueCall(now, shardmap.Shard(s), &m.shards[s]); kind != 0 {
			due[kind] = append(due[kind], shardmap.Shard(s))
		}
	}
	for kind := HookRelease; kind <= HookLost; kind++ {
		m.startCallsOf(now, kind, due[kind])
	}
}

// startCallsOf starts calls of one kind, up to MaxHookCalls at a time. Shards that found no
// free call come first the next time, so shards that fail repeatedly do not starve the others.
// Kinds have separate limits: releases have little time, and acquires may hang for a long time.
func (m *hookMachine) startCallsOf(now time.Duration, kind HookKind, due []shardmap.Shard) {
	freeCalls := MaxHookCalls
	for _, call := range m.runningCalls {
		if call.Kind == kind {
			freeCalls--
		}
	}
	first, _ := slices.BinarySearch(due, m.firstUnstarted[kind])
	m.firstUnstarted[kind] = 0
	for _, shards := range [...][]shardmap.Shard{due[first:], due[:first]} {
		for ; len(shards) > 0; freeCalls-- {
			if freeCalls <= 0 {
				m.firstUnstarted[kind] = shards[0]
				return
			}
			count := m.batchSize(shards)
			m.startCall(now, kind, shards[:count])
			shards = shards[count:]
		}
	}
}

// dueCall returns the kind of call that is due for a shard now; zero means none.
func (m *hookMachine) dueCall(now time.Duration, shard shardmap.Shard, held *heldShard) HookKind {
	var kind HookKind
	switch {
	case held.callSeq != 0:
		return 0
	case held.phase == HookAcquiring && m.inputs.hasLease:
		if held.epoch <= m.firstLeaseEpoch && m.inputs.state.RestartsIndex() < m.restartIndex {
			return 0 // the entry with the notes of the previous process is not applied yet
		}
		kind = HookAcquire
	case held.phase == HookReleasing && m.inputs.mayRelease:
		kind = HookRelease
	case held.isGone() && held.lostCallDue:
		kind = HookLost
	default:
		return 0
	}
	if now < held.nextAttempt {
		m.wakeAt(held.nextAttempt)
		return 0
	}
	if kind == HookAcquire {
		return kind
	}
	if now >= m.callDeadline(shard) {
		return 0 // not before the acknowledgement
	}
	if kind == HookRelease && m.releaseOverdue(now, shard) {
		return 0 // a safe drain keeps the shard, and the remaining time is reserved for lost calls
	}
	// Requests admitted under this ownership epoch may still reach the app.
	if ownership := m.ownershipOf(shard); ownership.isOwner && ownership.epoch == held.epoch && m.options.App.CountRequests(shard) > 0 {
		m.inputsChanged = true // the end of the request triggers a poll
		return 0
	}
	return kind
}

// batchSize returns how many of the shards the next call may name.
func (m *hookMachine) batchSize(shards []shardmap.Shard) int {
	limit := MaxHookShards
	for i, shard := range shards {
		if limit = min(limit, m.shards[shard].maxBatch); i >= limit {
			return max(i, 1)
		}
	}
	return len(shards)
}

// startCall starts a call for the shards and returns its Seq.
func (m *hookMachine) startCall(now time.Duration, kind HookKind, shards []shardmap.Shard) (seq uint64) {
	m.callCount++
	state := m.inputs.state
	deadline := time.Duration(math.MaxInt64)
	for _, shard := range shards {
		deadline = min(deadline, m.callDeadline(shard))
	}
	call := &runningCall{HookCall: HookCall{Kind: kind, Seq: m.boot<<32 + m.callCount, Map: state.Proposed().Epoch()}}
	switch kind {
	case HookAcquire:
		call.Map, call.Timeout = state.Committed().Epoch(), m.options.AcquireTimeout
		m.acquireFailures.updatesNeeded = true
	case HookRelease:
		call.Timeout = min(m.attemptTimeout(), deadline-m.lostCallReserve()-now)
	case HookLost:
		call.Timeout = min(m.attemptTimeout(), deadline-now)
	}
	for _, shard := range shards {
		held := &m.shards[shard]
		callShard := HookShard{Shard: shard, Epoch: held.epoch}
		switch kind {
		case HookAcquire:
			callShard.From, callShard.Again = state.PreviousOwner(shard), held.appMayHold || held.epoch <= m.firstLeaseEpoch
			if note, from, ok := m.inheritedNote(shard, held, held.epoch); ok {
				callShard.From, callShard.Note, callShard.Released = from, note, true
			}
			held.released, held.note = false, nil
			held.appMayHold = true
		case HookRelease:
			callShard.Cut, held.releaseAttempted = held.abortedRequests, true
			if to := state.Proposed().Owner(shard); to != m.self {
				callShard.To = to
			}
		case HookLost:
		}
		held.callSeq = call.Seq
		call.Shards = append(call.Shards, callShard)
	}
	call.deadline = now + call.Timeout
	m.runningCalls[call.Seq] = call
	m.options.App.StartCall(call.HookCall)
	return call.Seq
}

// handleResult applies the result of a call. It checks lease, committed map and last proposal
// of the present update again.
func (m *hookMachine) handleResult(now time.Duration, result HookResult) {
	call := m.runningCalls[result.Seq]
	if call == nil {
		return
	}
	delete(m.runningCalls, result.Seq)
	m.appRefusesConns = result.Refused
	m.probeEnded(now, call, result)
	for _, callShard := range call.Shards {
		held := &m.shards[callShard.Shard]
		held.callSeq = 0
		reason, failed := result.Failed[callShard.Shard]
		if result.Err != nil {
			reason, failed = result.Err.Error(), true
		}
		if !failed {
			m.callSucceeded(now, call, result, callShard.Shard, held)
			continue
		}
		cancelledEarly := call.cancelled && now < call.deadline // cancelled, not failed
		appResponded := !call.cancelled && now < call.deadline
		if !cancelledEarly && (appResponded || !held.appResponded) { // an error of the app explains more than a timeout
			held.lastError = reason
		}
		held.appResponded = held.appResponded || appResponded
		m.callFailed(now, call, result, callShard.Shard, held, cancelledEarly)
	}
}

// callSucceeded applies a success to one shard. The node serves an acquired shard from the next
// update in which it holds a lease. If the lease has lapsed since the call began, no other node can
// have owned the shard until the lease is renewed.
func (m *hookMachine) callSucceeded(now time.Duration, call *runningCall, result HookResult, shard shardmap.Shard, held *heldShard) {
	switch call.Kind {
	case HookAcquire:
		if ownership := m.ownershipOf(shard); ownership.remainsOwner && ownership.epoch == held.epoch {
			held.appAcquired = true
		}
		m.acquireFailures.acquireSucceeded(now)
	case HookRelease:
		m.reportReleaseEnd(shard, held, ReleaseOK, "", false)
		held.setPhase(now, HookGone)
		held.appMayHold, held.lostCallDue = false, false
		held.released, held.note = !result.Absent[shard], result.Notes[shard]
		if result.Absent[shard] {
			held.note = nil
		}
	case HookLost:
		held.appMayHold, held.lostCallDue = false, false
	}
}

// callFailed handles a failed call for one shard, or a result that does not mention the shard.
// cancelledEarly means that the call was cancelled before its timeout.
func (m *hookMachine) callFailed(now time.Duration, call *runningCall, result HookResult, shard shardmap.Shard, held *heldShard, cancelledEarly bool) {
	if held.retryPause = min(max(2*held.retryPause, minRetryPause), maxRetryPause); cancelledEarly {
		held.retryPause = 0
	}
	held.nextAttempt = now + held.retryPause
	if call.Kind == HookAcquire && !cancelledEarly {
		if held.acquireFailures++; now >= call.deadline && (len(call.Shards) == 1 || !m.servesAny()) {
			held.acquireFailures = max(held.acquireFailures, stuckAttempts) // acquire-timeout is long: do not wait for more failures
		}
	}
	switch {
	case call.Kind == HookRelease && result.Refused:
		// The app process is gone, with its state. The shard moves anyway.
		m.reportUnreleased(now, shard, held)
		held.abandon(now)
		held.lostCallDue = false
	case call.Kind == HookLost && result.Refused:
		held.lostCallDue = false
	case result.Err != nil && !result.Refused && !cancelledEarly:
		held.maxBatch = max(1, min(held.maxBatch, len(call.Shards))/batchDivisor)
	}
}

// HookEnded reports the result of a call. The caller must call Poll afterwards.
func (a *Agent) HookEnded(result HookResult) {
	if m := a.hooks; m != nil {
		m.pendingResults, m.inputsChanged = append(m.pendingResults, result), true
	}
}

// ShardNotAcquired reports that the app does not hold a shard for which it got a request of the
// given ownership epoch, and that it has not processed the request. The app gets another
// acquire call, and the node admits no request for the shard until that succeeds. The caller
// must call Poll afterwards.
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
	var held []HeldShardView
	for s, h := range a.hooks.shards {
		if !h.isGone() {
			held = append(held, HeldShardView{Shard: shardmap.Shard(s), Epoch: h.epoch, Phase: h.phase, Since: h.phaseSince, Err: h.lastError})
		}
	}
	return held
}
