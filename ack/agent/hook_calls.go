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
	room := MaxHookCalls
	for _, c := range m.runningCalls {
		if c.Kind == kind {
			room--
		}
	}
	first, _ := slices.BinarySearch(due, m.firstUnstarted[kind])
	m.firstUnstarted[kind] = 0
	for _, shards := range [...][]shardmap.Shard{due[first:], due[:first]} {
		for ; len(shards) > 0; room-- {
			if room <= 0 {
				m.firstUnstarted[kind] = shards[0]
				return
			}
			n := m.batchSize(shards)
			m.startCall(now, kind, shards[:n])
			shards = shards[n:]
		}
	}
}

// dueCall returns the kind of call that is due for a shard now; zero means none.
func (m *hookMachine) dueCall(now time.Duration, s shardmap.Shard, h *heldShard) HookKind {
	var kind HookKind
	switch {
	case h.callSeq != 0:
		return 0
	case h.phase == HookAcquiring && m.inputs.hasLease:
		if h.epoch <= m.firstLeaseEpoch && m.inputs.state.RestartsIndex() < m.restartIndex {
			return 0 // the entry with the notes of the previous process is not applied yet
		}
		kind = HookAcquire
	case h.phase == HookReleasing && m.inputs.mayRelease:
		kind = HookRelease
	case h.isGone() && h.lostCallDue:
		kind = HookLost
	default:
		return 0
	}
	if now < h.nextAttempt {
		m.wakeAt(h.nextAttempt)
		return 0
	}
	if kind == HookAcquire {
		return kind
	}
	if now >= m.callDeadline(s) {
		return 0 // not before the acknowledgement
	}
	// Requests admitted under this ownership epoch may still reach the app.
	if st := m.ownershipOf(s); st.isOwner && st.epoch == h.epoch && m.options.App.CountRequests(s) > 0 {
		m.inputsChanged = true // the end of the request triggers a poll
		return 0
	}
	return kind
}

// batchSize returns how many of the shards the next call may name.
func (m *hookMachine) batchSize(shards []shardmap.Shard) int {
	most := MaxHookShards
	for i, s := range shards {
		if most = min(most, m.shards[s].maxBatch); i >= most {
			return max(i, 1)
		}
	}
	return len(shards)
}

// startCall starts a call for the shards and returns its Seq.
func (m *hookMachine) startCall(now time.Duration, kind HookKind, shards []shardmap.Shard) (seq uint64) {
	m.callCount++
	state := m.inputs.state
	by := time.Duration(math.MaxInt64)
	for _, s := range shards {
		by = min(by, m.callDeadline(s))
	}
	c := &runningCall{HookCall: HookCall{Kind: kind, Seq: m.boot<<32 + m.callCount, Map: state.Proposed().Epoch()}}
	switch kind {
	case HookAcquire:
		c.Map, c.Timeout = state.Committed().Epoch(), m.options.AcquireTimeout
		m.acquireFailures.updatesNeeded = true
	case HookRelease:
		c.Timeout = min(m.attemptTimeout(), by-m.lostCallReserve()-now)
	case HookLost:
		c.Timeout = min(m.attemptTimeout(), by-now)
	}
	for _, s := range shards {
		h := &m.shards[s]
		hs := HookShard{Shard: s, Epoch: h.epoch}
		switch kind {
		case HookAcquire:
			hs.From, hs.Again = state.PreviousOwner(s), h.appMayHold || h.epoch <= m.firstLeaseEpoch
			if note, from, ok := m.inheritedNote(s, h, h.epoch); ok {
				hs.From, hs.Note, hs.Released = from, note, true
			}
			h.released, h.note = false, nil
			h.appMayHold = true
		case HookRelease:
			hs.Cut, h.releaseAttempted = h.abortedRequests, true
			if to := state.Proposed().Owner(s); to != m.self {
				hs.To = to
			}
		case HookLost:
		}
		h.callSeq = c.Seq
		c.Shards = append(c.Shards, hs)
	}
	c.deadline = now + c.Timeout
	m.runningCalls[c.Seq] = c
	m.options.App.StartCall(c.HookCall)
	return c.Seq
}

// handleResult applies the result of a call. It checks lease, committed map and last proposal
// of the present update again.
func (m *hookMachine) handleResult(now time.Duration, r HookResult) {
	c := m.runningCalls[r.Seq]
	if c == nil {
		return
	}
	delete(m.runningCalls, r.Seq)
	m.appRefusesConns = r.Refused
	m.probeEnded(now, c, r)
	for _, hs := range c.Shards {
		h := &m.shards[hs.Shard]
		h.callSeq = 0
		why, failed := r.Failed[hs.Shard]
		if r.Err != nil {
			why, failed = r.Err.Error(), true
		}
		if !failed {
			m.callSucceeded(now, c, r, hs.Shard, h)
			continue
		}
		early := c.cancelled && now < c.deadline // cancelled, not failed
		answered := !c.cancelled && now < c.deadline
		if !early && (answered || !h.appResponded) { // an error of the app explains more than a timeout
			h.lastError = why
		}
		h.appResponded = h.appResponded || answered
		m.callFailed(now, c, r, hs.Shard, h, early)
	}
}

// callSucceeded applies a success to one shard. The node serves an acquired shard from the next
// update in which it holds a lease. If the lease has lapsed since the call began, no other node can
// have owned the shard until the lease is renewed.
func (m *hookMachine) callSucceeded(now time.Duration, c *runningCall, r HookResult, s shardmap.Shard, h *heldShard) {
	switch c.Kind {
	case HookAcquire:
		if st := m.ownershipOf(s); st.remainsOwner && st.epoch == h.epoch {
			h.appAcquired = true
		}
		m.acquireFailures.acquireSucceeded(now)
	case HookRelease:
		m.reportReleaseEnd(s, h, ReleaseOK, "", false)
		h.setPhase(now, HookGone)
		h.appMayHold, h.lostCallDue = false, false
		h.released, h.note = !r.Absent[s], r.Notes[s]
		if r.Absent[s] {
			h.note = nil
		}
	case HookLost:
		h.appMayHold, h.lostCallDue = false, false
	}
}

// callFailed handles a failed call for one shard, or a result that does not mention the shard.
// early means that the call was cancelled before its timeout.
func (m *hookMachine) callFailed(now time.Duration, c *runningCall, r HookResult, s shardmap.Shard, h *heldShard, early bool) {
	if h.retryPause = min(max(2*h.retryPause, minRetryPause), maxRetryPause); early {
		h.retryPause = 0
	}
	h.nextAttempt = now + h.retryPause
	if c.Kind == HookAcquire && !early {
		if h.acquireFailures++; now >= c.deadline && (len(c.Shards) == 1 || !m.servesAny()) {
			h.acquireFailures = max(h.acquireFailures, stuckAttempts) // acquire-timeout is long: do not wait for more failures
		}
	}
	switch {
	case c.Kind == HookRelease && r.Refused:
		// The app process is gone, with its state. The shard moves anyway.
		m.reportUnreleased(now, s, h)
		h.abandon(now)
		h.lostCallDue = false
	case c.Kind == HookLost && r.Refused:
		h.lostCallDue = false
	case r.Err != nil && !r.Refused && !early:
		h.maxBatch = max(1, min(h.maxBatch, len(c.Shards))/batchDivisor)
	}
}

// HookEnded reports the result of a call. The caller must call Poll afterwards.
func (a *Agent) HookEnded(r HookResult) {
	if m := a.hooks; m != nil {
		m.pendingResults, m.inputsChanged = append(m.pendingResults, r), true
	}
}

// ShardNotAcquired reports that the app does not hold a shard for which it got a request of the
// given ownership epoch, and that it has not processed the request. The app gets another
// acquire call, and the node admits no request for the shard until that succeeds. The caller
// must call Poll afterwards.
func (a *Agent) ShardNotAcquired(s shardmap.Shard, epoch shardmap.Epoch) {
	if m := a.hooks; m != nil && int(s) < len(m.shards) {
		m.reportedNotAcquired, m.inputsChanged = append(m.reportedNotAcquired, shardEpoch{s, epoch}), true
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
