package ack_test

import (
	"time"

	"shardway/ack/leader"
)

// Faults that combine several events which rarely coincide by chance, and which one mutant
// needs to do harm.

// faultTrap kills a node. While it is down, another leader is elected that the current one
// cannot reach, and is told that the node is gone for good. The node returns to the old
// leader, which does not know that it is deposed.
func faultTrap(w *world) bool {
	old := w.randomHost(func(h *host) bool { return running(h) && h.proc.leader })
	if old == nil {
		return false
	}
	x := w.randomHost(func(h *host) bool { return running(h) && h != old && !h.gateway && !h.proc.isVoter() })
	if x == nil {
		x = w.randomHost(func(h *host) bool { return running(h) && h != old && !h.gateway })
	}
	next := w.randomHost(func(h *host) bool { return running(h) && h != old && h != x && h.proc.isVoter() })
	if x == nil || next == nil {
		return false
	}
	w.logf("trap: %s leads, %s is killed, %s is elected", old.id, x.id, next.id)
	x.crash()
	w.run(w.now+w.span(40*time.Millisecond, 250*time.Millisecond), nil)
	with := func(i int) bool { return i == old.i || i == x.i }
	w.cutLinks(func(i, j int) bool { return with(i) != with(j) })
	if !running(next) {
		return true
	}
	next.proc.campaign("a coup")
	w.run(w.now+w.span(20*time.Millisecond, 60*time.Millisecond), nil)
	if l := next.proc; l != nil && l.lead != nil && x.proc == nil {
		w.dead[x.id] = true
		l.lead.receive(leader.NodeRemoved{Node: x.id}, origin{})
	}
	w.run(w.now+w.span(30*time.Millisecond, 150*time.Millisecond), nil)
	if x.proc == nil {
		x.start()
	}
	w.run(w.now+600*time.Millisecond, nil)
	return true
}

// faultBlind prevents a voter from applying entries, partitions another node until its shards
// are taken, and then elects that voter, which receives the heartbeats of the other node
// again.
func faultBlind(w *world) bool {
	old := w.randomHost(func(h *host) bool { return running(h) && h.proc.leader })
	blind := w.randomHost(func(h *host) bool { return running(h) && h != old && h.proc.isVoter() })
	x := w.randomHost(func(h *host) bool { return running(h) && h != old && h != blind && !h.gateway })
	if old == nil || blind == nil || x == nil {
		return false
	}
	w.logf("scene: %s is blind, %s is cut off", blind.id, x.id)
	for _, h := range []*host{blind, x} {
		h.holdLog = true
		w.undo(3*w.deadAfter(), func() { w.hold(h, false) })
	}
	w.isolate(x, w.deadAfter()+w.span(600*time.Millisecond, 1200*time.Millisecond))
	if running(blind) {
		blind.proc.campaign("blind")
	}
	w.run(w.now+700*time.Millisecond, nil)
	return true
}

// isolate partitions a host for d.
func (w *world) isolate(x *host, d time.Duration) {
	for i := range w.hosts {
		w.link[x.i][i], w.link[i][x.i] = false, false
	}
	w.run(w.now+d, nil)
	for i := range w.hosts {
		w.link[x.i][i], w.link[i][x.i] = true, true
	}
}

// faultStraggler makes the app of a node unhealthy, so that the node is excluded but not
// dropped, and misses that proposal. When it is reachable again, the commit that takes its
// shards may be in progress.
func faultStraggler(w *world) bool {
	x := w.randomHost(func(h *host) bool { return running(h) && !h.gateway && !leads(h) })
	if x == nil {
		return false
	}
	w.logf("scene: %s is sick and applies nothing", x.id)
	x.unhealthy = true
	w.hold(x, true)
	w.run(w.now+w.span(150*time.Millisecond, 300*time.Millisecond), nil)
	w.isolate(x, w.deadAfter()+w.span(-100*time.Millisecond, 300*time.Millisecond))
	w.run(w.now+w.span(300*time.Millisecond, 1200*time.Millisecond), nil)
	x.unhealthy = false
	w.hold(x, false)
	return true
}

// faultOldBoot kills a node with delayed heartbeats. Some arrive when its next boot has a
// lease and an unhealthy app, and has applied no later entry. Then there may be another
// leader.
func faultOldBoot(w *world) bool {
	x := w.randomHost(func(h *host) bool { return running(h) && !h.gateway && !leads(h) })
	if x == nil {
		return false
	}
	w.logf("scene: heartbeats of %s come late, and it is killed", x.id)
	w.slow = 700
	w.run(w.now+w.span(100*time.Millisecond, 300*time.Millisecond), nil)
	w.slow = 0
	if x.proc != nil {
		x.crash()
	}
	w.run(w.now+w.span(50*time.Millisecond, 300*time.Millisecond), nil)
	if x.proc == nil {
		x.start()
	}
	w.run(w.now+w.span(200*time.Millisecond, 800*time.Millisecond), nil)
	x.unhealthy = true
	w.hold(x, true)
	w.undo(w.deadAfter(), func() {
		x.unhealthy = false
		w.hold(x, false)
	})
	if w.pick(2) == 0 {
		faultElect(w)
	}
	w.run(w.now+w.span(300*time.Millisecond, 900*time.Millisecond), nil)
	return true
}

// faultLateBarrier elects a leader that applies its barrier only after it was deposed without
// knowing it.
func faultLateBarrier(w *world) bool {
	first := w.randomHost(func(h *host) bool { return running(h) && !h.proc.leader && h.proc.isVoter() })
	second := w.randomHost(func(h *host) bool { return running(h) && h != first && h.proc.isVoter() })
	if first == nil || second == nil {
		return false
	}
	w.logf("scene: %s leads and applies late, then %s leads", first.id, second.id)
	first.holdLog = true
	first.proc.campaign("the first")
	w.run(w.now+w.span(80*time.Millisecond, 300*time.Millisecond), nil)
	w.cutLinks(func(i, j int) bool {
		return i == second.i && j == first.i || i == first.i && j == second.i || (i == first.i || j == first.i) && w.n(2) == 0
	})
	if running(second) {
		second.proc.campaign("the second")
	}
	w.run(w.now+w.span(80*time.Millisecond, 200*time.Millisecond), nil)
	w.hold(first, false)
	w.run(w.now+500*time.Millisecond, nil)
	return true
}

// faultTwoFaced elects a leader with the vote of a node that continues to send heartbeats to
// the current one, and is cut off from Raft.
func faultTwoFaced(w *world) bool {
	old := w.randomHost(func(h *host) bool { return running(h) && h.proc.leader })
	voter := w.randomHost(func(h *host) bool { return running(h) && h != old && h.proc.isVoter() })
	next := w.randomHost(func(h *host) bool { return running(h) && h != old && h != voter && h.proc.isVoter() })
	if old == nil || voter == nil || next == nil {
		return false
	}
	w.logf("scene: %s votes for %s and talks to %s", voter.id, next.id, old.id)
	w.cutLinks(func(i, j int) bool { return i == next.i && j == old.i || i == old.i && j == next.i })
	next.proc.campaign("by one vote")
	for i := range w.hosts {
		w.noLog[i][voter.i], w.noLog[voter.i][i] = true, true
	}
	w.run(w.now+w.span(200*time.Millisecond, 600*time.Millisecond), nil)
	for i := range w.hosts {
		w.noLog[i][voter.i], w.noLog[voter.i][i] = false, false
	}
	return true
}

// faultConvert elects a leader that only the current one can reach, which votes for it. The
// others still follow the old leader, whose loop may be the last to notice.
func faultConvert(w *world) bool {
	old := w.randomHost(func(h *host) bool { return running(h) && h.proc.leader })
	next := w.randomHost(func(h *host) bool { return running(h) && h != old && h.proc.isVoter() })
	if old == nil || next == nil {
		return false
	}
	w.logf("scene: %s votes for %s, and the other servers do not learn of it", old.id, next.id)
	w.cutLinks(func(i, j int) bool { return i == next.i && j != old.i || j == next.i && i != old.i })
	next.proc.campaign("by one vote")
	w.run(w.now+500*time.Millisecond, nil)
	return true
}

// faultEchoes elects leaders within a few answers. The heartbeats of a voter to the second
// leader stall until the third is elected, and carry echoes of answers of the first.
func faultEchoes(w *world) bool {
	faultElect(w)
	w.run(w.now+w.span(60*time.Millisecond, 260*time.Millisecond), nil)
	second := w.randomHost(func(h *host) bool { return running(h) && !h.proc.leader && h.proc.isVoter() })
	third := w.randomHost(func(h *host) bool { return running(h) && h != second && h.proc.isVoter() })
	if second == nil || third == nil {
		return false
	}
	w.logf("scene: %s leads, then %s", second.id, third.id)
	d := w.span(250*time.Millisecond, 500*time.Millisecond)
	for i := range w.hosts {
		w.stalled[i][second.i] = w.now + d + w.span(50*time.Millisecond, 150*time.Millisecond)
	}
	second.proc.campaign("the second")
	w.run(w.now+d, nil)
	w.cutLinks(func(i, j int) bool { return i == second.i || j == second.i })
	if running(third) {
		third.proc.campaign("the third")
	}
	w.run(w.now+400*time.Millisecond, nil)
	return true
}

// faultLastWords kills a node with delayed heartbeats. Some arrive after it was dropped, and
// void the crash evidence.
func faultLastWords(w *world) bool {
	x := w.randomHost(func(h *host) bool { return running(h) && !h.gateway && !leads(h) })
	if x == nil {
		return false
	}
	w.logf("scene: the last heartbeats of %s are late", x.id)
	w.run(w.now+400*time.Millisecond, nil)
	w.slow, w.dup = 400, 0
	if w.pick(2) == 0 { // all of them, and twice
		w.slow, w.dup = 1000, 1000
	}
	w.run(w.now+w.span(50*time.Millisecond, 250*time.Millisecond), nil)
	w.slow, w.dup = 0, 0
	if x.proc != nil {
		x.crash()
	}
	w.run(w.now+time.Second, nil)
	w.back(x, 0)
	return true
}

// faultLateEvidence restarts a node at once, perhaps with an empty disk. The crash evidence is
// handled when the next boot may have a lease.
func faultLateEvidence(w *world) bool {
	x := w.randomHost(func(h *host) bool { return running(h) && !h.gateway && !leads(h) })
	if x == nil {
		return false
	}
	w.logf("scene: %s restarts, and evidence about it comes late", x.id)
	wiped := w.pick(2) == 0 && w.toleratesLossOf(x) && w.newestConf().has(x.server())
	x.crash()
	if wiped {
		x.wipe() // its next boot may have the number of the last
	}
	w.slow, w.slower = 1000, wiped && w.pick(2) == 0
	w.run(w.now+w.span(25*time.Millisecond, 40*time.Millisecond), nil)
	late := w.slower
	w.slow, w.slower = 0, false
	w.back(x, 0)
	if late {
		w.run(w.now+w.deadAfter()+w.span(800*time.Millisecond, 1200*time.Millisecond), nil)
		return true
	}
	if l := w.randomHost(func(h *host) bool { return running(h) && h.proc.leader && h.proc.isVoter() }); l != nil && w.pick(3) > 0 {
		w.run(w.now+w.span(200*time.Millisecond, 700*time.Millisecond), nil)
		if running(l) && l.proc.leader {
			x.mute = true // it has its lease, and is not heard in the new term
			w.undo(w.span(200*time.Millisecond, 600*time.Millisecond), func() { x.mute = false })
			l.proc.loseLeadership("while evidence is under way")
			l.proc.campaign("again")
		}
	}
	w.run(w.now+w.span(800*time.Millisecond, 1200*time.Millisecond), nil)
	return true
}

// faultTwoGone excludes two nodes at once, one of which is partitioned. The other restarts
// from a snapshot of the committed map. Its new boot has no lease at first, and gets one
// before the shards of the first node may be taken.
func faultTwoGone(w *world) bool {
	x := w.randomHost(func(h *host) bool { return running(h) && !h.gateway && !leads(h) })
	y := w.randomHost(func(h *host) bool { return running(h) && !h.gateway && !leads(h) && h != x })
	if x == nil || y == nil {
		return false
	}
	w.logf("scene: %s and %s are left out, %s restarts", x.id, y.id, x.id)
	x.proc.compact(0)
	x.holdLog, x.unhealthy, y.unhealthy = true, true, true
	w.cutLinks(func(i, j int) bool { return i == y.i || j == y.i })
	w.run(w.now+w.span(80*time.Millisecond, 250*time.Millisecond), nil)
	if x.proc != nil {
		x.crash()
	}
	w.run(w.now+w.span(0, 40*time.Millisecond), nil)
	if x.proc == nil && !x.absent {
		x.start()
	}
	w.run(w.now+w.deadAfter()+w.span(0, 400*time.Millisecond), nil)
	x.unhealthy, y.unhealthy = false, false
	w.hold(x, false)
	return true
}

// faultLateAnswers restarts a node while answers to its previous boot are in transit.
func faultLateAnswers(w *world) bool {
	x := w.randomHost(func(h *host) bool { return running(h) && !h.gateway && !leads(h) })
	if x == nil {
		return false
	}
	w.logf("scene: answers to %s are late, and it restarts", x.id)
	w.slow = 800
	w.run(w.now+w.span(150*time.Millisecond, 350*time.Millisecond), nil)
	w.slow = 0
	if x.proc != nil {
		x.crash()
	}
	x.unhealthy = true
	w.hold(x, true)
	w.run(w.now+w.span(20*time.Millisecond, 300*time.Millisecond), nil)
	if x.proc == nil {
		x.start()
	}
	w.run(w.now+w.span(800*time.Millisecond, 1500*time.Millisecond), nil)
	x.unhealthy = false
	w.hold(x, false)
	return true
}

// faultLateCommit delays the commit of a leader until another leader has granted a lease to
// the node whose shards the commit takes.
func faultLateCommit(w *world) bool {
	first := w.randomHost(func(h *host) bool { return running(h) && h.proc.leader })
	x := w.randomHost(func(h *host) bool { return running(h) && !h.gateway && h != first })
	if first == nil || x == nil {
		return false
	}
	second := w.randomHost(func(h *host) bool { return running(h) && h != first && h != x && h.proc.isVoter() })
	if second == nil {
		return false
	}
	w.logf("scene: a commit that takes from %s is late", x.id)
	x.unhealthy = true
	w.hold(x, true)
	w.run(w.now+w.span(150*time.Millisecond, 250*time.Millisecond), nil)
	late := w.lateSubmit
	w.lateSubmit = 1000
	w.isolate(x, w.deadAfter()+w.span(0, 500*time.Millisecond))
	x.unhealthy = w.pick(2) == 0
	if w.pick(2) == 0 {
		w.lateSubmit = late // the second one's barrier need not be late, nor what it proposes
	}
	if running(second) {
		second.proc.campaign("in between")
	}
	w.run(w.now+w.span(200*time.Millisecond, 500*time.Millisecond), nil)
	if running(first) {
		first.proc.campaign("again")
	}
	w.run(w.now+400*time.Millisecond, nil)
	w.lateSubmit = late
	x.unhealthy = false
	w.hold(x, false)
	return true
}
