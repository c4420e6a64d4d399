package ack_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
)

// The timing of a schedule: nodes are started with flags of their own, operators
// change what is in force, also around elections, and several at once.

// deadAfter returns the longest dead-after in force at any node.
func (w *world) deadAfter() time.Duration {
	if !w.truth.Bootstrapped() {
		return time.Second
	}
	return w.truth.Timing().DeadAfter
}

// anyTiming returns a random valid timing.
func (w *world) anyTiming() ack.Timing { return w.timingBy(w.pick) }

// flagsOf returns the random flags of a host. They have no effect, so they use separate random
// numbers and change no schedule.
func (w *world) flagsOf(h *host) ack.Timing {
	return w.timingBy(rand.New(rand.NewPCG(w.seed, uint64(h.i))).IntN)
}

func (w *world) timingBy(pick func(k int) int) ack.Timing {
	t := ack.Timing{Lease: 400 * time.Millisecond, DeadAfter: time.Second, RebalanceMode: ack.RebalanceIncremental}
	switch pick(5) {
	case 0:
		t.Lease, t.DeadAfter = 500*time.Millisecond, 1200*time.Millisecond
	case 1:
		t.Lease, t.DeadAfter = 500*time.Millisecond, 2500*time.Millisecond
	case 2:
		t.Lease, t.DeadAfter = time.Second, 2500*time.Millisecond
	case 3:
		t.Lease, t.DeadAfter = 700*time.Millisecond, 4*time.Second
	}
	t.Takeover = w.mix.takeovers[pick(len(w.mix.takeovers))]
	if pick(5) == 0 {
		t.RebalanceMode = ack.RebalanceStopTheWorld
	}
	return t
}

// checkTiming notes when a timing came into force.
func (w *world) checkTiming(after *ack.State) {
	w.cover.retimed++
	w.timedAt[after.TimingIndex()] = w.now
	w.logf("log: %d sets timing %+v", after.Index(), after.Timing())
}

// strictly reports whether a leader with the given state must treat evidence by the timeout
// rule: it is in force, or was so recently that its effects may last.
func (w *world) strictly(s *ack.State) bool {
	t, before := s.Timing(), s.PreviousTiming()
	at, changed := w.timedAt[s.TimingIndex()]
	return t.Takeover == ack.TakeoverTimeout ||
		changed && before.Takeover == ack.TakeoverTimeout && w.now-at < max(t.DeadAfter, before.DeadAfter)*9/10
}

// changeTiming requests a change from a leader, as package node does, and submits the entry,
// sometimes very late.
func (l *leaderLoop) changeTiming(t ack.Timing) bool {
	w, p := l.p.w, l.p
	if l.over || l.busy {
		return false
	}
	entry, effects, err := l.turn.ChangeTiming(t)
	l.perform(slices.Clone(effects), nil, origin{})
	if err != nil {
		if errors.As(err, new(leader.TooSoonError)) {
			w.cover.tooSoon++
		}
		return false
	}
	w.logf("%s is to set timing %+v", p.h.id, t)
	d := w.span(0, time.Millisecond)
	if w.perMille(w.lateSubmit) {
		d = w.span(5*time.Millisecond, 2500*time.Millisecond)
	}
	w.after(d, p, func() {
		if p.raftAccepts() {
			i := p.appendEntry(&logEntry{data: entry})
			w.logf("%s appends a timing at %d", p.h.id, i)
		}
	})
	return true
}

// faultTiming changes the timing, sometimes twice at once, sometimes at a former leader.
func faultTiming(w *world) bool {
	h := w.randomHost(func(h *host) bool { return running(h) && leads(h) })
	if h == nil {
		return false
	}
	hit := h.proc.lead.changeTiming(w.anyTiming())
	if w.pick(3) == 0 && running(h) && leads(h) {
		hit = h.proc.lead.changeTiming(w.anyTiming()) || hit
	}
	return hit
}

// faultTimingCut changes the timing while a node is partitioned, with or without a new leader.
// Its running requests follow the previous timing.
func faultTimingCut(w *world) bool {
	l := w.randomHost(func(h *host) bool { return running(h) && leads(h) && h.proc.leader })
	x := w.randomHost(func(h *host) bool { return running(h) && h != l && !h.gateway })
	if l == nil || x == nil {
		return false
	}
	w.logf("scene: the timing changes while %s is cut off", x.id)
	cut := func() { w.cutLinks(func(i, j int) bool { return i == x.i || j == x.i }) }
	first, times := w.pick(2) == 0, 1+w.pick(2)
	if first {
		cut()
		w.run(w.now+w.span(0, 150*time.Millisecond), nil)
	}
	hit := false
	for range times {
		if running(l) && leads(l) {
			hit = l.proc.lead.changeTiming(w.anyTiming()) || hit
		}
		if w.pick(2) == 0 {
			w.run(w.now+w.span(0, 60*time.Millisecond), nil)
		}
	}
	if !first {
		w.run(w.now+w.span(0, 150*time.Millisecond), nil)
		cut()
	}
	switch w.pick(3) {
	case 0:
		faultElect(w)
		w.run(w.now+w.span(50*time.Millisecond, 300*time.Millisecond), nil)
		faultTiming(w)
	case 1:
		w.run(w.now+w.span(50*time.Millisecond, 400*time.Millisecond), nil)
		faultTiming(w)
	}
	w.run(w.now+w.span(500*time.Millisecond, w.deadAfter()+time.Second), nil)
	return hit
}

// faultTimingLost makes a leader append a timing that is never replicated. The others elect a
// leader that does not know the timing, and that may take shards from a node that still
// follows the first leader.
func faultTimingLost(w *world) bool {
	l := w.randomHost(func(h *host) bool { return running(h) && h.proc.leader && leads(h) })
	x := w.randomHost(func(h *host) bool { return running(h) && h != l && !h.gateway })
	next := w.randomHost(func(h *host) bool { return running(h) && h != l && h != x && h.proc.isVoter() })
	if l == nil || x == nil || next == nil {
		return false
	}
	w.logf("scene: a timing that %s sets is lost, %s is elected", l.id, next.id)
	for i := range w.hosts {
		w.noLog[l.i][i] = true
	}
	w.undo(w.faultDuration(), func() {
		for i := range w.hosts {
			w.noLog[l.i][i] = false
		}
	})
	hit := l.proc.lead.changeTiming(w.anyTiming())
	w.run(w.now+w.span(50*time.Millisecond, 400*time.Millisecond), nil)
	w.cutLinks(func(i, j int) bool { return i == x.i && j != l.i || j == x.i && i != l.i })
	if running(next) {
		next.proc.campaign("the timing is lost")
	}
	w.run(w.now+w.span(200*time.Millisecond, w.deadAfter()+time.Second), nil)
	return hit
}

// faultTimingElect changes the timing during an election: by two leaders, or with rival
// candidates. Of the entries of two leaders one is lost or void, and every leader grants by
// the committed timing.
func faultTimingElect(w *world) bool {
	l := w.randomHost(func(h *host) bool { return running(h) && h.proc.leader && leads(h) })
	if l == nil {
		return false
	}
	w.logf("scene: the timing changes during an election")
	before := w.cover.elections
	hit := l.proc.lead.changeTiming(w.anyTiming())
	w.run(w.now+w.span(0, 6*time.Millisecond), nil)
	if w.pick(2) == 0 {
		faultSplit(w)
	} else {
		faultDepose(w)
	}
	w.run(w.now+w.span(10*time.Millisecond, 80*time.Millisecond), nil)
	for _, h := range w.hosts {
		if running(h) && leads(h) && h.proc.lead.changeTiming(w.anyTiming()) {
			hit = true
		}
	}
	w.run(w.now+w.span(100*time.Millisecond, w.deadAfter()), nil)
	if hit && w.cover.elections > before {
		w.cover.retimedElections++
	}
	return hit
}

// faultTimingHalves changes the timing on both sides of a partition: by the leader of the old
// side, which commits nothing, and by the new leader of the other side. Partitioned nodes have
// leases and requests of the previous timing.
func faultTimingHalves(w *world) bool {
	l := w.randomHost(func(h *host) bool { return running(h) && h.proc.leader && leads(h) })
	if l == nil {
		return false
	}
	w.logf("scene: the timing changes on both sides of a partition")
	var with [simHosts]bool
	for i := range w.hosts {
		with[i] = i == l.i || w.pick(4) == 0
	}
	if !w.cutLinks(func(i, j int) bool { return with[i] != with[j] }) {
		return false
	}
	hit := l.proc.lead.changeTiming(w.anyTiming())
	w.run(w.now+w.span(0, 100*time.Millisecond), nil)
	if next := w.randomHost(func(h *host) bool { return running(h) && !with[h.i] && h.proc.isVoter() }); next != nil {
		next.proc.campaign("on the other side")
		w.run(w.now+w.span(50*time.Millisecond, w.deadAfter()+400*time.Millisecond), nil)
		if running(next) && leads(next) && next.proc.lead.changeTiming(w.anyTiming()) {
			w.cover.retimedHalves++
			hit = true
		}
	}
	w.run(w.now+w.span(200*time.Millisecond, w.deadAfter()+time.Second), nil)
	return hit
}

// faultTimingTakeover replaces takeover by timeout with a laxer rule, and forges a refused
// connection before the effects of the timeout rule are over.
func faultTimingTakeover(w *world) bool {
	l := w.randomHost(func(h *host) bool { return running(h) && h.proc.leader && leads(h) })
	x := w.randomHost(func(h *host) bool { return running(h) && h != l && !h.gateway })
	if l == nil || x == nil {
		return false
	}
	w.logf("scene: takeover timeout is replaced, and %s is removed", x.id)
	for _, takeover := range []ack.Takeover{ack.TakeoverTimeout, ack.TakeoverLease} {
		if t := w.truth.Timing(); t.Takeover != takeover && running(l) && leads(l) {
			t.Takeover = takeover
			l.proc.lead.changeTiming(t)
			w.run(w.now+w.span(50*time.Millisecond, 150*time.Millisecond), nil)
		}
		if takeover == ack.TakeoverTimeout {
			w.run(w.now+w.deadAfter()+w.span(500*time.Millisecond, 900*time.Millisecond), nil)
		}
	}
	if !running(l) || !leads(l) || !running(x) {
		return true
	}
	w.cover.forged++
	l.proc.lead.forged[x.id] = x
	w.cutLinks(func(i, j int) bool { return i == x.i || j == x.i })
	l.proc.lead.receive(leader.ConnClosed{Node: x.id, Nonce: x.proc.nonce}, origin{})
	l.proc.lead.receive(leader.CrashEvidence{Node: x.id, Boot: x.proc.bootNow(), Nonce: x.proc.nonce, RedialStartedAt: l.proc.clock()}, origin{})
	w.run(w.now+w.deadAfter(), nil)
	return true
}
