package ack

import (
	"math"
	"slices"
	"time"

	"shardway/shardmap"
)

// begin makes the calls that are due. What serves has been published: a request that
// is not counted now will not come.
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

// inTurn makes the calls of one kind that there is room for. Shards that find none come
// first when there is, so those that fail again and again do not hold up the others; and
// no kind waits for another: a release has little time, and acquires may hang for long.
func (m *hookMachine) startCallsOf(now time.Duration, kind HookKind, due []shardmap.Shard) {
	room := MaxHookCalls
	for _, c := range m.running {
		if c.Kind == kind {
			room--
		}
	}
	first, _ := slices.BinarySearch(due, m.firstWaiting[kind])
	m.firstWaiting[kind] = 0
	for _, shards := range [...][]shardmap.Shard{due[first:], due[:first]} {
		for ; len(shards) > 0; room-- {
			if room <= 0 {
				m.firstWaiting[kind] = shards[0]
				return
			}
			n := m.batchSize(shards)
			m.startCall(now, kind, shards[:n])
			shards = shards[n:]
		}
	}
}

// due returns what the app is to be told of a shard now, zero: nothing.
func (m *hookMachine) dueCall(now time.Duration, s shardmap.Shard, h *heldShard) HookKind {
	var kind HookKind
	switch {
	case h.call != 0:
		return 0
	case h.phase == HookAcquiring && m.seen.mayServe:
		if h.epoch <= m.firstLeaseEpoch && m.seen.state.restartsIndex < m.restartIndex {
			return 0 // what the last process has kept is in an entry that is on its way
		}
		kind = HookAcquire
	case h.phase == HookReleasing && m.seen.leaseHeld:
		kind = HookRelease
	case h.gone() && h.lostPending:
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
	if now >= m.deadline(s) {
		return 0 // after the acknowledgement
	}
	// What was admitted for this very ownership may still come to the app.
	if st := m.ownershipOf(s); st.owned && st.epoch == h.epoch && m.o.App.Busy(s) > 0 {
		m.dirty = true // its end leads to a look
		return 0
	}
	return kind
}

// together returns how many of the shards the next call may name.
func (m *hookMachine) batchSize(shards []shardmap.Shard) int {
	most := MaxHookShards
	for i, s := range shards {
		if most = min(most, m.shards[s].maxBatch); i >= most {
			return max(i, 1)
		}
	}
	return len(shards)
}

func (m *hookMachine) startCall(now time.Duration, kind HookKind, shards []shardmap.Shard) (seq uint64) {
	m.calls++
	state := m.seen.state
	by := time.Duration(math.MaxInt64)
	for _, s := range shards {
		by = min(by, m.deadline(s))
	}
	c := &runningCall{HookCall: HookCall{Kind: kind, Seq: m.boot<<32 + m.calls, Map: state.Last().Epoch()}}
	switch kind {
	case HookAcquire:
		c.Map, c.Timeout = state.Committed().Epoch(), m.o.AcquireTimeout
		m.acquireFailures.active = true
	case HookRelease:
		c.Timeout = min(m.attemptTimeout(), by-m.lostTime()-now)
	case HookLost:
		c.Timeout = min(m.attemptTimeout(), by-now)
	}
	for _, s := range shards {
		h := &m.shards[s]
		hs := HookShard{Shard: s, Epoch: h.epoch}
		switch kind {
		case HookAcquire:
			hs.From, hs.Again = state.OwnerBefore(s), h.mayHold || h.epoch <= m.firstLeaseEpoch
			if note, from, ok := m.inheritedNote(s, h, h.epoch); ok {
				hs.From, hs.Note, hs.Released = from, note, true
			}
			h.released, h.note = false, nil
			h.mayHold = true
		case HookRelease:
			hs.Cut, h.mayHaveReleased = h.cutRequests, true
			if to := state.Last().Owner(s); to != m.self {
				hs.To = to
			}
		case HookLost:
		}
		h.call = c.Seq
		c.Shards = append(c.Shards, hs)
	}
	c.deadline = now + c.Timeout
	m.running[c.Seq] = c
	m.o.App.Call(c.HookCall)
	return c.Seq
}

// take does what a result leads to. Lease, committed map and last proposal are looked
// at again: they are those of this look.
func (m *hookMachine) handleResult(now time.Duration, r HookResult) {
	c := m.running[r.Seq]
	if c == nil {
		return
	}
	delete(m.running, r.Seq)
	m.appRefuses = r.Refused
	m.probeEnded(now, c, r)
	for _, hs := range c.Shards {
		h := &m.shards[hs.Shard]
		h.call = 0
		why, failed := r.Failed[hs.Shard]
		if r.Err != nil {
			why, failed = r.Err.Error(), true
		}
		if !failed {
			m.callSucceeded(now, c, r, hs.Shard, h)
			continue
		}
		early := c.cancelled && now < c.deadline // it has not failed
		answered := !c.cancelled && now < c.deadline
		if !early && (answered || !h.appResponded) { // what the app has said explains more than a timeout
			h.err = why
		}
		h.appResponded = h.appResponded || answered
		m.callFailed(now, c, r, hs.Shard, h, early)
	}
}

// done is a success. What was acquired serves by its turn, once there is a lease: if it has
// lapsed meanwhile, nobody else can have had the shard when it comes back.
func (m *hookMachine) callSucceeded(now time.Duration, c *runningCall, r HookResult, s shardmap.Shard, h *heldShard) {
	switch c.Kind {
	case HookAcquire:
		if st := m.ownershipOf(s); st.remains && st.epoch == h.epoch {
			h.acquired = true
		}
		m.acquireFailures.acquireSucceeded(now)
	case HookRelease:
		m.reportReleaseEnd(s, h, ReleaseOK, "", false)
		h.setPhase(now, HookGone)
		h.mayHold, h.lostPending = false, false
		h.released, h.note = !r.Absent[s], r.Notes[s]
		if r.Absent[s] {
			h.note = nil
		}
	case HookLost:
		h.mayHold, h.lostPending = false, false
	}
}

// failed is an attempt that failed, or of which nothing is known.
func (m *hookMachine) callFailed(now time.Duration, c *runningCall, r HookResult, s shardmap.Shard, h *heldShard, early bool) {
	if h.retryPause = min(max(2*h.retryPause, minRetryPause), maxRetryPause); early {
		h.retryPause = 0
	}
	h.nextAttempt = now + h.retryPause
	if c.Kind == HookAcquire && !early {
		if h.failures++; now >= c.deadline && (len(c.Shards) == 1 || !m.servesAny()) {
			h.failures = max(h.failures, stuckAttempts) // acquire-timeout is long
		}
	}
	switch {
	case c.Kind == HookRelease && r.Refused:
		// The app is gone, with what it held. The shard moves all the same.
		m.reportUnreleased(now, s, h)
		h.abandon(now)
		h.lostPending = false
	case c.Kind == HookLost && r.Refused:
		h.lostPending = false
	case r.Err != nil && !r.Refused && !early:
		h.maxBatch = max(1, min(h.maxBatch, len(c.Shards))/batchDivisor)
	}
}

// Called takes what came of a call. A Look must follow.
func (a *Agent) HookEnded(r HookResult) {
	if m := a.hooks; m != nil {
		m.results, m.dirty = append(m.results, r), true
	}
}

// NotAcquired tells that the app says it does not hold a shard for which a request of
// the given ownership epoch was sent to it, and that it has not run that one: it is
// told to acquire it again, and no request is admitted before it has. A Look must
// follow.
func (a *Agent) NotAcquired(s shardmap.Shard, epoch shardmap.Epoch) {
	if m := a.hooks; m != nil && int(s) < len(m.shards) {
		m.notAcquired, m.dirty = append(m.notAcquired, shardEpoch{s, epoch}), true
	}
}

// Held returns what the app has of each shard that it may hold or is to hold.
func (a *Agent) HeldShards() []HeldShardView {
	if a.hooks == nil {
		return nil
	}
	var held []HeldShardView
	for s, h := range a.hooks.shards {
		if !h.gone() {
			held = append(held, HeldShardView{Shard: shardmap.Shard(s), Epoch: h.epoch, Phase: h.phase, Since: h.since, Err: h.err})
		}
	}
	return held
}
