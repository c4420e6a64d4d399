package ack_test

import (
	"time"

	"shardway/ack/agent"
	"shardway/shardmap"
)

// hookChecks is global knowledge about all apps.
type hookChecks struct {
	releaseTimeout, acquireTimeout time.Duration
	stuckAfter, backoff            time.Duration
	// begun is, by shard, the newest ownership epoch that an app was told to acquire.
	begun map[shardmap.Shard]shardmap.Epoch
	// lastSeq is the newest one of calls from each disk.
	lastSeq map[string]uint64
	// follows is whom the owner of that epoch follows, by committed maps.
	follows map[shardEpoch]shardmap.NodeID
	lastOf  map[shardmap.Shard]shardEpoch // under which it is owned, or was last
	releasedChecks
}

func newHookChecks() hookChecks {
	return hookChecks{
		begun: map[shardmap.Shard]shardmap.Epoch{}, lastSeq: map[string]uint64{}, follows: map[shardEpoch]shardmap.NodeID{}, lastOf: map[shardmap.Shard]shardEpoch{},
		releasedChecks: newReleasedChecks(),
	}
}

// checkCall checks a call that a node sends.
func (w *world) checkCall(p *proc, c *simCall) {
	if n := len(c.Shards); n == 0 && c.Kind != agent.HookAcquire || n > agent.MaxHookShards || c.Timeout <= 0 {
		w.fail("hooks: a call of %d shards within %v", n, c.Timeout)
	}
	if last := w.lastSeq[c.disk]; c.Seq <= last && !p.h.hasCopy() || c.Seq >= 1<<53 {
		w.fail("hooks: %s calls %d after %d", p.h.id, c.Seq, last)
	}
	w.lastSeq[c.disk] = c.Seq
	w.checkServiceOfCall(p, c)
	m := p.table.Committed()
	for i, hs := range c.Shards {
		if i > 0 && hs.Shard <= c.Shards[i-1].Shard {
			w.fail("hooks: the shards of a call are out of order")
		}
		for _, other := range p.sortedCalls() {
			for _, o := range other.Shards {
				if o.Shard == hs.Shard {
					w.fail("hooks: %s has two calls under way for shard %d", p.h.id, hs.Shard)
				}
			}
		}
		mine := m.IsOwnedBy(hs.Shard, p.h.id, c.Instance) && m.OwnedSince(hs.Shard) == hs.Epoch
		switch c.Kind {
		case agent.HookRelease:
			w.checkReleaseLeave(p, c, hs, mine)
		case agent.HookAcquire:
			w.checkAcquireLeave(p, c, hs, mine)
		case agent.HookLost:
			if _, runs := p.owns(hs.Shard); runs {
				w.fail("hooks: %s tells that shard %d is lost, and admits for it", p.h.id, hs.Shard)
			}
		}
	}
}

func (w *world) checkReleaseLeave(p *proc, c *simCall, hs agent.HookShard, mine bool) {
	if _, runs := p.owns(hs.Shard); runs {
		w.fail("hooks: %s releases shard %d and admits for it", p.h.id, hs.Shard)
	}
	if !mine || p.clock() >= p.until && !p.closing && !c.late {
		w.fail("hooks: %s releases shard %d without a lease, or after it was given away", p.h.id, hs.Shard)
	}
	if n := p.CountRequests(hs.Shard); n > 0 {
		w.fail("hooks: %s releases shard %d, of which %d requests run", p.h.id, hs.Shard, n)
	}
	if to := p.table.Proposed().OwnerInstanceID(hs.Shard); !p.keepsShard(hs.Shard) && to != hs.To {
		w.fail("hooks: %s releases shard %d to %q, it goes to %q", p.h.id, hs.Shard, hs.To, to)
	}
}

func (w *world) checkAcquireLeave(p *proc, c *simCall, hs agent.HookShard, mine bool) {
	if !mine || !p.keepsShard(hs.Shard) || p.clock() >= p.until && !c.late {
		w.fail("hooks: %s acquires shard %d without a lease, or while it moves", p.h.id, hs.Shard)
	}
	want := w.follows[shardEpoch{hs.Shard, hs.Epoch}]
	if hs.Released {
		want = p.releasedBy(hs.Shard, hs.Epoch)
	}
	if hs.From != want {
		w.fail("hooks: %s acquires shard %d of epoch %d from %q, it was %q's", p.h.id, hs.Shard, hs.Epoch, hs.From, want)
	}
	w.checkExact(p, c.disk, hs)
}

// checkSuccession records the previous owners in a map just committed.
func (w *world) checkSuccession(p *shardmap.Map, s shardmap.Shard) {
	o := shardEpoch{s, p.OwnedSince(s)}
	if _, known := w.follows[o]; known || p.Owner(s) == "" {
		return
	}
	last := w.lastOf[s]
	w.follows[o] = w.owner[last]
	if w.promised[p.Epoch()][s].From != "" {
		w.follows[o] = w.follows[last] // it was given back
	}
	w.lastOf[s] = o
}

// checkBegun checks a call that an app begins: an acquire while no other app serves or
// releases the shard, and a release before another app acquires it.
func (w *world) checkBegun(c *simCall) {
	for _, hs := range c.Shards {
		switch c.Kind {
		case agent.HookAcquire:
			w.begun[hs.Shard] = max(w.begun[hs.Shard], hs.Epoch)
			if c.counts() {
				w.checkAcquireBegun(c, hs)
			}
		case agent.HookRelease:
			w.checkBefore(c, hs)
		case agent.HookLost:
		}
	}
}

// epochOf returns the epoch under which the call names a shard, zero if it does not.
func (c *simCall) epochOf(s shardmap.Shard) shardmap.Epoch {
	for _, hs := range c.Shards {
		if hs.Shard == s {
			return hs.Epoch
		}
	}
	return 0
}

// counts reports whether the node considers the call running.
func (c *simCall) counts() bool { return !c.cut && !c.ended && !c.p.dead && !c.late }

// checkAcquireBegun is the second half of G1 for an app that loads a shard.
func (w *world) checkAcquireBegun(c *simCall, hs agent.HookShard) {
	for _, h := range w.hosts {
		q := h.proc
		if q == nil || c.p.h.hasCopy() || h.hasCopy() || w.now < c.p.forgedUntil || c.p.excusedByStop() || q.excusedByStop() {
			continue
		}
		for _, r := range q.reqs {
			if r.shard == hs.Shard && r.running && !r.cut && !r.forged && !r.late && r.epoch < hs.Epoch {
				w.fail("hooks: %s acquires shard %d of epoch %d while %s runs a request of epoch %d", c.p.h.id, hs.Shard, hs.Epoch, h.id, r.epoch)
			}
		}
		for _, o := range q.sortedCalls() {
			if e := o.epochOf(hs.Shard); o != c && e != 0 && e < hs.Epoch && o.counts() && !o.forged && o.Kind != agent.HookLost {
				w.fail("hooks: %s acquires shard %d of epoch %d during a call to the app of %s to %s it", c.p.h.id, hs.Shard, hs.Epoch, h.id, o.Kind)
			}
		}
	}
}

// checkDone checks what an app has done for a shard.
func (w *world) checkDone(c *simCall, hs agent.HookShard) {
	if c.Kind == agent.HookRelease {
		w.checkBefore(c, hs)
	}
}

// checkBefore fails if a release continues after the acquire of the next owner has begun.
func (w *world) checkBefore(c *simCall, hs agent.HookShard) {
	if w.begun[hs.Shard] <= hs.Epoch || !c.counts() {
		return
	}
	p := c.p
	switch {
	case p.h.hasCopy() || w.now < p.forgedUntil || c.forged:
		w.cover.excusedForged++
	case p.excusedByStop():
		w.cover.excusedStops++
	default:
		w.fail("hooks: %s releases shard %d of epoch %d after epoch %d was acquired", p.h.id, hs.Shard, hs.Epoch, w.begun[hs.Shard])
	}
}

// checkFirstByte checks a request that reaches an app. It returns false if the app has
// restarted and has not processed it.
func (w *world) checkFirstByte(p *proc, r *simReq) bool {
	if p.h.app == nil || r.forged {
		return true
	}
	got := p.got[r.shard]
	if got.epoch != r.epoch && !r.late {
		w.fail("hooks: %s runs a request for shard %d of epoch %d, its app has acquired %d", p.h.id, r.shard, r.epoch, got.epoch)
	}
	app := p.h.appOf(r.instance)
	if app.held[r.shard] == r.epoch && w.now >= app.down {
		return true
	}
	if app.life == got.life && !r.late {
		w.fail("hooks: %s runs a request for shard %d of epoch %d, its app holds %d", p.h.id, r.shard, r.epoch, app.held[r.shard])
	}
	w.cover.asked++
	if w.now >= app.down {
		p.machine.ShardNotAcquired(r.shard, r.epoch)
		w.after(w.span(0, time.Millisecond), p, p.step)
	}
	return false
}

// checkLook checks what a poll has left undone: an acquire call for a moving shard is
// cancelled at once, and a release delays an acknowledgement no longer than allowed.
func (w *world) checkLook(p *proc) {
	if p.h.app == nil {
		return
	}
	w.checkPending(p)
	for _, c := range p.sortedCalls() {
		for _, hs := range c.Shards {
			if c.Kind == agent.HookAcquire && !c.cut && !p.keepsShard(hs.Shard) {
				w.fail("hooks: %s goes on acquiring shard %d, which moves", p.h.id, hs.Shard)
			}
		}
	}
	now := p.clock()
	kept, _ := p.machine.KeptShards()
	if e := p.machine.Draining(); e != p.drains || p.stoppedOnce || kept > 0 || p.cutStillRunning() {
		p.drains, p.drainsSince, p.drainsLimit = e, now, p.releaseTimeout()
	}
	if most := max(p.drainsLimit, p.releaseTimeout()) + 300*time.Millisecond; p.drains != 0 && now-p.drainsSince > most {
		w.fail("hooks: %s has not acknowledged %d for more than %v", p.h.id, p.drains, most)
	}
}

// cutStillRunning reports whether requests for moving shards still run, or a cancelled call
// does.
func (p *proc) cutStillRunning() bool {
	for _, r := range p.reqs {
		if p.table.ChangesKeyConfig() || !p.keepsShard(r.shard) {
			return true
		}
	}
	for _, c := range p.calls {
		if c.cut {
			return true
		}
	}
	return false
}

// checkAcknowledged checks an acknowledgement: calls count as running, and the app knows which
// shards it has lost.
func (w *world) checkAcknowledged(p *proc) {
	for s := range shardmap.Shard(w.shards) {
		if epoch, owed := p.owed[s]; owed && !p.stoppedOnce && !p.keepsShard(s) {
			w.fail("hooks: %s acknowledges %d, and its app goes on holding shard %d of epoch %d", p.h.id, p.machine.Acked(), s, epoch)
		}
	}
	for _, c := range p.sortedCalls() {
		for _, hs := range c.Shards {
			if !p.keepsShard(hs.Shard) {
				w.fail("hooks: %s acknowledges %d during a call to its app to %s shard %d", p.h.id, p.machine.Acked(), c.Kind, hs.Shard)
			}
		}
	}
}

// releaseTime returns how much longer a host may at least take to acknowledge. The leader knows the
// release timeout of a drain from the next heartbeat of the host.
func (w *world) releaseTime(h *host) time.Duration {
	if h.app == nil {
		return 0
	}
	if t := w.truth.Policy().DrainOptions[h.id].ReleaseTimeout; t > 0 {
		return min(t, w.releaseTimeout)
	}
	return w.releaseTimeout
}

// acquiredAll reports whether the app of a host has acquired all its shards.
func (h *host) acquiredAll(m *shardmap.Map) bool {
	if h.app == nil {
		return true
	}
	for s := range shardmap.Shard(h.w.shards) {
		_, serves := h.proc.owns(s)
		_, owed := h.proc.owed[s]
		if mine := m.Owner(s) == h.id; mine != serves || mine != owed || mine && h.appOf(m.Instance(s)).held[s] != m.OwnedSince(s) {
			return false
		}
	}
	return true
}
