package ack

import (
	"math"
	"slices"
	"time"

	"shardway/shardmap"
)

// begin makes the calls that are due. What serves has been published: a request that
// is not counted now will not come.
func (k *hooks) begin(now time.Duration) {
	var due [HookLost + 1][]shardmap.Shard
	for s := range k.shards {
		if kind := k.due(now, shardmap.Shard(s), &k.shards[s]); kind != 0 {
			due[kind] = append(due[kind], shardmap.Shard(s))
		}
	}
	for kind := HookRelease; kind <= HookLost; kind++ {
		k.inTurn(now, kind, due[kind])
	}
}

// inTurn makes the calls of one kind that there is room for. Shards that find none come
// first when there is, so those that fail again and again do not hold up the others; and
// no kind waits for another: a release has little time, and acquires may hang for long.
func (k *hooks) inTurn(now time.Duration, kind HookKind, due []shardmap.Shard) {
	room := MaxHookCalls
	for _, c := range k.under {
		if c.Kind == kind {
			room--
		}
	}
	first, _ := slices.BinarySearch(due, k.first[kind])
	k.first[kind] = 0
	for _, shards := range [...][]shardmap.Shard{due[first:], due[:first]} {
		for ; len(shards) > 0; room-- {
			if room <= 0 {
				k.first[kind] = shards[0]
				return
			}
			n := k.together(shards)
			k.call(now, kind, shards[:n])
			shards = shards[n:]
		}
	}
}

// due returns what the app is to be told of a shard now, zero: nothing.
func (k *hooks) due(now time.Duration, s shardmap.Shard, h *holding) HookKind {
	var kind HookKind
	switch {
	case h.call != 0:
		return 0
	case h.phase == HookAcquiring && k.saw.leased:
		if h.epoch <= k.since && k.saw.state.absentAt < k.absences {
			return 0 // what the last process has kept is in an entry that is on its way
		}
		kind = HookAcquire
	case h.phase == HookReleasing && k.saw.granted:
		kind = HookRelease
	case h.gone() && h.forget:
		kind = HookLost
	default:
		return 0
	}
	if now < h.due {
		k.wake(h.due)
		return 0
	}
	if kind == HookAcquire {
		return kind
	}
	if now >= k.deadline(s) {
		return 0 // after the acknowledgement
	}
	// What was admitted for this very ownership may still come to the app.
	if st := k.standing(s); st.mine && st.epoch == h.epoch && k.o.App.Busy(s) > 0 {
		k.stale = true // its end leads to a look
		return 0
	}
	return kind
}

// together returns how many of the shards the next call may name.
func (k *hooks) together(shards []shardmap.Shard) int {
	most := MaxHookShards
	for i, s := range shards {
		if most = min(most, k.shards[s].most); i >= most {
			return max(i, 1)
		}
	}
	return len(shards)
}

func (k *hooks) call(now time.Duration, kind HookKind, shards []shardmap.Shard) (seq uint64) {
	k.calls++
	state := k.saw.state
	by := time.Duration(math.MaxInt64)
	for _, s := range shards {
		by = min(by, k.deadline(s))
	}
	c := &calling{HookCall: HookCall{Kind: kind, Seq: k.boot<<32 + k.calls, Map: state.Last().Epoch()}}
	switch kind {
	case HookAcquire:
		c.Map, c.Timeout = state.Committed().Epoch(), k.o.AcquireTimeout
		k.un.judging = true
	case HookRelease:
		c.Timeout = min(k.attempt(), by-k.lostTime()-now)
	case HookLost:
		c.Timeout = min(k.attempt(), by-now)
	}
	for _, s := range shards {
		h := &k.shards[s]
		hs := HookShard{Shard: s, Epoch: h.epoch}
		switch kind {
		case HookAcquire:
			hs.From, hs.Again = state.OwnerBefore(s), h.told || h.epoch <= k.since
			if note, from, ok := k.untouched(s, h, h.epoch); ok {
				hs.From, hs.Note, hs.Released = from, note, true
			}
			h.released, h.note = false, nil
			h.told = true
		case HookRelease:
			hs.Cut, h.tried = h.cut, true
			if to := state.Last().Owner(s); to != k.self {
				hs.To = to
			}
		case HookLost:
		}
		h.call = c.Seq
		c.Shards = append(c.Shards, hs)
	}
	c.endBy = now + c.Timeout
	k.under[c.Seq] = c
	k.o.App.Call(c.HookCall)
	return c.Seq
}

// take does what a result leads to. Lease, committed map and last proposal are looked
// at again: they are those of this look.
func (k *hooks) take(now time.Duration, r HookResult) {
	c := k.under[r.Seq]
	if c == nil {
		return
	}
	delete(k.under, r.Seq)
	k.refused = r.Refused
	k.probed(now, c, r)
	for _, hs := range c.Shards {
		h := &k.shards[hs.Shard]
		h.call = 0
		why, failed := r.Failed[hs.Shard]
		if r.Err != nil {
			why, failed = r.Err.Error(), true
		}
		if !failed {
			k.done(now, c, r, hs.Shard, h)
			continue
		}
		early := c.cut && now < c.endBy // it has not failed
		answered := !c.cut && now < c.endBy
		if !early && (answered || !h.answered) { // what the app has said explains more than a timeout
			h.err = why
		}
		h.answered = h.answered || answered
		k.failed(now, c, r, hs.Shard, h, early)
	}
}

// done is a success. What was acquired serves by its turn, once there is a lease: if it has
// lapsed meanwhile, nobody else can have had the shard when it comes back.
func (k *hooks) done(now time.Duration, c *calling, r HookResult, s shardmap.Shard, h *holding) {
	switch c.Kind {
	case HookAcquire:
		if st := k.standing(s); st.stays && st.epoch == h.epoch {
			h.has = true
		}
		k.un.succeeds(now)
	case HookRelease:
		k.releaseEnded(s, h, ReleaseOK, "", false)
		h.enter(now, HookGone)
		h.told, h.forget = false, false
		h.released, h.note = !r.Absent[s], r.Notes[s]
		if r.Absent[s] {
			h.note = nil
		}
	case HookLost:
		h.told, h.forget = false, false
	}
}

// failed is an attempt that failed, or of which nothing is known.
func (k *hooks) failed(now time.Duration, c *calling, r HookResult, s shardmap.Shard, h *holding, early bool) {
	if h.pause = min(max(2*h.pause, retryFirst), retryMost); early {
		h.pause = 0
	}
	h.due = now + h.pause
	if c.Kind == HookAcquire && !early {
		if h.failures++; now >= c.endBy && (len(c.Shards) == 1 || !k.serves()) {
			h.failures = max(h.failures, stuckAttempts) // acquire-timeout is long
		}
	}
	switch {
	case c.Kind == HookRelease && r.Refused:
		// The app is gone, with what it held. The shard moves all the same.
		k.unreleased(now, s, h)
		h.leave(now)
		h.forget = false
	case c.Kind == HookLost && r.Refused:
		h.forget = false
	case r.Err != nil && !r.Refused && !early:
		h.most = max(1, min(h.most, len(c.Shards))/splitBy)
	}
}

// Called takes what came of a call. A Look must follow.
func (a *Agent) Called(r HookResult) {
	if k := a.hooks; k != nil {
		k.results, k.stale = append(k.results, r), true
	}
}

// NotAcquired tells that the app says it does not hold a shard for which a request of
// the given ownership epoch was sent to it, and that it has not run that one: it is
// told to acquire it again, and no request is admitted before it has. A Look must
// follow.
func (a *Agent) NotAcquired(s shardmap.Shard, epoch shardmap.Epoch) {
	if k := a.hooks; k != nil && int(s) < len(k.shards) {
		k.asked, k.stale = append(k.asked, ownership{s, epoch}), true
	}
}

// Held returns what the app has of each shard that it may hold or is to hold.
func (a *Agent) Held() []Held {
	if a.hooks == nil {
		return nil
	}
	var held []Held
	for s, h := range a.hooks.shards {
		if !h.gone() {
			held = append(held, Held{Shard: shardmap.Shard(s), Epoch: h.epoch, Phase: h.phase, Since: h.since, Err: h.err})
		}
	}
	return held
}
