package ack_test

import (
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// Restarts in place: a process sends a goodbye that announces its return, continues for a
// while without admitting requests, and ends. The next process starts within the grace, or
// not.

// restarting is such a process.
type restarting struct {
	back   time.Duration // announced time until its return; zero: it does not return
	linger time.Duration // for how long it goes on after its goodbye
	down   time.Duration // and for how long none is there then
}

// restartEntryWait is how long a process that has said goodbye waits until its own log
// says that it is absent.
const restartEntryWait = 3 * time.Second

// restartChecks is global knowledge about restarts in place.
type restartChecks struct {
	absentAt map[shardmap.NodeID]time.Duration // when the current absence began
	backAt   map[shardmap.NodeID]time.Duration // when the last one was over
	away     map[speakingBoot]bool
	said     map[speakingBoot]bool // goodbye, and that it comes back
	dead     map[shardmap.NodeID]bool
	// restartEntryAt is the index of the entry with which one began or ended last.
	restartEntryAt uint64
}

// speakingBoot is a boot of a node.
type speakingBoot struct {
	node shardmap.NodeID
	boot uint64
}

func newRestartChecks() restartChecks {
	return restartChecks{
		absentAt: map[shardmap.NodeID]time.Duration{}, backAt: map[shardmap.NodeID]time.Duration{},
		away: map[speakingBoot]bool{}, said: map[speakingBoot]bool{}, dead: map[shardmap.NodeID]bool{},
	}
}

// restart makes the process stop with an announced return.
func (h *host) restart(r restarting) {
	p, w := h.proc, h.w
	if p.lead != nil && !p.lead.over && p.leader && r.back >= 0 {
		p.lead.transfer()
	}
	w.logf("%s restarts in place, back within %v", h.id, r.back)
	w.cover.restarts++
	w.after(w.span(0, 100*time.Millisecond), p, func() {
		if p.leaving || p.closing {
			return
		}
		p.closing, p.restarting = true, r
		p.machine.HeartbeatNow()
	})
}

// lingerAfterLeaveNotice ends a process some time after its goodbye, once its own log contains the
// restart or it has waited long enough.
func (p *proc) lingerAfterLeaveNotice(until time.Duration) {
	w := p.w
	a, _ := p.fsm.Restart(p.h.id)
	if a.Boot != p.bootNow() && w.now < until {
		w.after(20*time.Millisecond, p, func() { p.lingerAfterLeaveNotice(until) })
		return
	}
	w.after(p.linger, p, func() {
		w.logf("%s exits", p.h.id)
		h, d := p.h, p.down
		h.crash()
		w.back(h, d)
	})
}

// faultRestart restarts a process in place, mostly within its grace.
func faultRestart(w *world) bool {
	h := w.anyone()
	if h == nil || h.proc.leaving || h.proc.closing {
		return false
	}
	r := restarting{back: []time.Duration{300 * time.Millisecond, 1500 * time.Millisecond, 6 * time.Second}[w.pick(3)], down: w.span(10*time.Millisecond, 800*time.Millisecond)}
	if w.pick(3) == 0 {
		r.linger = w.faultDuration()
	}
	if w.pick(3) == 0 {
		r.down = w.faultDuration()
	}
	h.restart(r)
	return true
}

// faultRestartElect restarts a process while leadership changes.
func faultRestartElect(w *world) bool {
	if !faultRestart(w) {
		return false
	}
	w.run(w.now+w.span(0, 300*time.Millisecond), nil)
	if w.pick(2) == 0 {
		return faultElect(w)
	}
	return faultDepose(w)
}

// faultRestartJoin lets shards move while a process restarts.
func faultRestartJoin(w *world) bool {
	if !faultRestart(w) {
		return false
	}
	w.run(w.now+w.span(0, 400*time.Millisecond), nil)
	switch w.pick(4) {
	case 0:
		return faultJoin(w)
	case 1:
		return faultPolicy(w)
	case 2:
		return faultUnhealthy(w)
	}
	return faultRestart(w)
}

// faultRestartWipe restarts a process whose disk is gone by then.
func faultRestartWipe(w *world) bool {
	h := w.anyone()
	if h == nil || h.proc.leaving || h.proc.closing || h.copied || !w.toleratesLossOf(h) || !w.newestConf().has(h.server()) {
		return false
	}
	h.restart(restarting{back: 20 * time.Second, down: time.Second})
	if !w.run(w.now+10*time.Second, func() bool { return h.proc == nil }) {
		return false
	}
	h.wipe()
	return true
}

// faultInPlace restarts a process when all is well, and waits until all is well again.
func faultInPlace(w *world) bool {
	well := func() bool { return w.settled(50 * time.Millisecond) }
	if !w.run(w.now+20*time.Second, well) {
		return false
	}
	h := w.anyone()
	if h == nil || h.proc.closing {
		return false
	}
	h.restart(restarting{back: time.Minute, down: w.span(10*time.Millisecond, 1500*time.Millisecond)})
	boot := h.proc.bootNow()
	if !w.run(w.now+20*time.Second, func() bool { return h.proc != nil && h.proc.bootNow() > boot && !w.truth.Restarting(h.id) && well() }) {
		w.fail("progress: %s has restarted in place: %s", h.id, w.describe())
	}
	return true
}

// checkRestartEntry checks the begin and the end of a restart.
func (w *world) checkRestartEntry(before, after *ack.State, e *logEntry) {
	if e.asked != e.term {
		w.fail("restart: a goodbye to the leader of term %d counts in term %d", e.asked, e.term)
	}
	for _, h := range w.hosts {
		was, _ := before.Restart(h.id)
		is, _ := after.Restart(h.id)
		if was == is || h.twin != nil && h.i > h.twin.i {
			continue
		}
		w.restartEntryAt = after.Index()
		boot := speakingBoot{h.id, is.Boot}
		if is.Ended {
			w.logf("log: %s is absent no more", h.id)
			w.backAt[h.id] = w.now
			isMarked := before.Policy().MarkedFailed[h.id]
			if isMarked {
				w.cover.markedRestarts++
			}
			if lasted := w.now - w.absentAt[h.id]; lasted < is.Grace*9/10 && !h.hasReturned(is.Boot) && !isMarked {
				w.fail("restart: of %s, is over after %v of %v", h.id, lasted, is.Grace)
			}
			continue
		}
		w.logf("log: %s is absent for %v", h.id, is.Grace)
		w.cover.restartEntries++
		if w.away[boot] && h.disks == 1 && h.twin == nil {
			w.fail("restart: of boot %d of %s, begins once more", is.Boot, h.id)
		}
		if !w.said[boot] {
			w.fail("restart: of boot %d of %s, which has not sent a goodbye", is.Boot, h.id)
		}
		w.away[boot], w.dead[h.id] = true, false
		w.absentAt[h.id] = w.now
		w.checkKept(h, is.Boot, e.term, after)
	}
}

// checkSpeak records which processes serve or leave after a restart.
func (w *world) checkSpeak(m leader.HeartbeatReceived, a ack.Answer) {
	for _, h := range w.hosts {
		if h.id == m.Node && (a.ServeFor > 0 || m.Leaving || m.Goodbye) {
			h.speaks = max(h.speaks, m.Boot)
		}
	}
}

// hasReturned reports whether a process with a higher boot serves or leaves.
func (h *host) hasReturned(boot uint64) bool { return h.speaks > boot || h.disks > 1 || h.twin != nil }

// checkRestarting checks that a proposal leaves the shards of restarting nodes in place.
func (w *world) checkRestarting(before, after *ack.State) {
	if after.Proposed().HasSameOwners(before.Proposed()) {
		return // rule 10, and what is proposed once more
	}
	for id := range w.absent(before) {
		switch {
		case !w.sameShards(before.Committed(), after.Proposed(), id) && !w.dead[id]:
			w.fail("restart: %d moves shards of %s, which is absent", after.Proposed().Epoch(), id)
		case len(shardmap.Diff(before.Committed(), after.Proposed())) > 0:
			w.cover.movedBeside++
		}
	}
}

// absent returns the restarting nodes in a state.
func (w *world) absent(s *ack.State) map[shardmap.NodeID]bool {
	ids := map[shardmap.NodeID]bool{}
	for _, h := range w.hosts {
		if s.Restarting(h.id) {
			ids[h.id] = true
		}
	}
	return ids
}

// sameShards reports whether two maps give a node the same shards.
func (w *world) sameShards(a, b *shardmap.Map, id shardmap.NodeID) bool {
	for s := range shardmap.Shard(w.shards) {
		if (a.Owner(s) == id || b.Owner(s) == id) && !a.HasSameOwner(b, s) {
			return false
		}
	}
	return true
}

// sameRestarts reports whether two states have the same restart records.
func (w *world) sameRestarts(a, b *ack.State) bool {
	for _, h := range w.hosts {
		x, okx := a.Restart(h.id)
		y, oky := b.Restart(h.id)
		if x != y || okx != oky {
			return false
		}
	}
	return true
}
