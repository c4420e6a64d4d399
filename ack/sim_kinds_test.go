package ack_test

import (
	"time"

	"shardway/ack/leader"
)

// The kinds of faults. Each draws its host and its duration.

// randomHost returns a random host for which ok holds, or nil.
func (w *world) randomHost(ok func(h *host) bool) *host {
	var fit []*host
	for _, h := range w.hosts {
		if ok(h) {
			fit = append(fit, h)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	return fit[w.pick(len(fit))]
}

func running(h *host) bool { return h.proc != nil && !h.stopped }

func leads(h *host) bool { return h.proc != nil && h.proc.lead != nil && !h.proc.lead.over }

// anyone draws a running host: the leader one time in three.
func (w *world) anyone() *host {
	if w.pick(3) == 0 {
		if h := w.randomHost(func(h *host) bool { return running(h) && leads(h) }); h != nil {
			return h
		}
	}
	return w.randomHost(running)
}

// back starts a process again after a while.
func (w *world) back(h *host, d time.Duration) {
	w.after(d, nil, func() {
		if h.proc == nil && !h.absent {
			h.start()
		}
	})
}

func faultCrash(w *world) bool {
	h := w.anyone()
	if h == nil {
		return false
	}
	h.crash()
	switch w.pick(3) {
	case 0:
		w.back(h, w.span(10*time.Millisecond, 300*time.Millisecond))
	case 1:
		w.back(h, w.span(300*time.Millisecond, 1500*time.Millisecond))
	default:
		w.back(h, w.faultDuration())
	}
	return true
}

func faultWipe(w *world) bool {
	h := w.anyone()
	if h == nil || h.copied || !w.toleratesLossOf(h) || !w.newestConf().has(h.server()) {
		return false
	}
	h.crash()
	h.wipe()
	w.back(h, w.span(10*time.Millisecond, 800*time.Millisecond))
	return true
}

func faultPause(w *world) bool {
	h := w.anyone()
	if h == nil {
		return false
	}
	d := w.faultDuration()
	at := pausePoint(w.pick(int(pausePoints)))
	if at == pauseNowhere {
		h.stop(d, "")
		return true
	}
	h.pauseAt, h.pauseFor = at, d
	return true
}

// undo ends a fault after a while, unless all faults have stopped before.
func (w *world) undo(d time.Duration, fn func()) {
	w.after(d, nil, func() {
		if !w.healing {
			fn()
		}
	})
}

// cutLinks stops messages between the hosts for which cut holds, for a while. It
// reports whether there were any to stop.
func (w *world) cutLinks(cut func(i, j int) bool) bool {
	var was [][2]int
	for i := range w.hosts {
		for j := range w.hosts {
			if i != j && w.link[i][j] && cut(i, j) {
				w.link[i][j] = false
				was = append(was, [2]int{i, j})
			}
		}
	}
	w.undo(w.faultDuration(), func() {
		for _, l := range was {
			w.link[l[0]][l[1]] = true
		}
		w.logf("%d links are back", len(was))
	})
	return len(was) > 0
}

// partition is cutLinks, counted if there were any to stop.
func (w *world) partition(count *int, cut func(i, j int) bool) bool {
	if !w.cutLinks(cut) {
		return false
	}
	*count++
	return true
}

func faultIsolate(w *world) bool {
	h := w.anyone()
	if h == nil {
		return false
	}
	w.logf("%s is cut off", h.id)
	return w.partition(&w.cover.partitions, func(i, j int) bool { return i == h.i || j == h.i })
}

func faultOneWay(w *world) bool {
	h := w.anyone()
	if h == nil {
		return false
	}
	if w.pick(2) == 0 {
		w.logf("nothing from %s arrives", h.id)
		return w.partition(&w.cover.oneWays, func(i, _ int) bool { return i == h.i })
	}
	w.logf("nothing arrives at %s", h.id)
	return w.partition(&w.cover.oneWays, func(_, j int) bool { return j == h.i })
}

func faultHalves(w *world) bool {
	side := w.pick(1 << len(w.hosts))
	w.logf("the network falls in two: %b", side)
	return w.partition(&w.cover.partitions, func(i, j int) bool { return side>>i&1 != side>>j&1 })
}

// faultBridge leaves two groups that only one host connects.
func faultBridge(w *world) bool {
	side, b := w.pick(1<<len(w.hosts)), w.pick(len(w.hosts))
	w.logf("the network falls in two, %s sees both: %b", w.hosts[b].id, side)
	return w.partition(&w.cover.bridges, func(i, j int) bool { return i != b && j != b && side>>i&1 != side>>j&1 })
}

func faultPair(w *world) bool {
	i, j, both := w.pick(len(w.hosts)), w.pick(len(w.hosts)), w.pick(2) == 0
	w.logf("the link from %s to %s is cut (both ways: %v)", w.hosts[i].id, w.hosts[j].id, both)
	return w.cutLinks(func(a, b int) bool { return a == i && b == j || both && a == j && b == i })
}

// faultNoLog holds back Raft's messages to or from one host; heartbeats arrive.
func faultNoLog(w *world) bool {
	h, to := w.anyone(), w.pick(2) == 0
	if h == nil {
		return false
	}
	w.logf("Raft's messages are held back at %s (those to it: %v)", h.id, to)
	w.cover.noLogs++
	for i := range w.hosts {
		w.noLog[i][h.i], w.noLog[h.i][i] = to, !to
	}
	w.undo(w.faultDuration(), func() {
		for i := range w.hosts {
			w.noLog[i][h.i], w.noLog[h.i][i] = false, false
		}
	})
	return true
}

func faultNoise(w *world) bool {
	w.loss, w.dup, w.slow = w.pick(4)*100, w.pick(3)*100, w.pick(4)*30
	w.logf("the network loses %d, repeats %d and delays %d in a thousand", w.loss, w.dup, w.slow)
	w.undo(w.faultDuration(), func() { w.loss, w.dup, w.slow = 0, 0, 0 })
	return w.loss+w.dup+w.slow > 0
}

// faultStall holds back what two hosts send each other, and then lets it arrive
// all at once and in order, as a connection does.
func faultStall(w *world) bool {
	i, j := w.pick(len(w.hosts)), w.pick(len(w.hosts))
	d := w.faultDuration()
	w.logf("messages from %s to %s stall for %v", w.hosts[i].id, w.hosts[j].id, d.Round(time.Millisecond))
	w.stalled[i][j] = w.now + d
	if w.pick(2) == 0 {
		w.stalled[j][i] = w.now + d
	}
	return i != j
}

// faultElect elects another leader, or the same one again if no other can be.
func faultElect(w *world) bool {
	h := w.randomHost(func(h *host) bool { return running(h) && !h.proc.leader && h.proc.isVoter() })
	if h == nil {
		h = w.randomHost(func(h *host) bool { return running(h) && h.proc.leader })
		if h == nil {
			return false
		}
		h.proc.loseLeadership("just so")
	}
	h.proc.campaign("just so")
	return true
}

// faultDepose elects another leader while the current one cannot hear of it.
func faultDepose(w *world) bool {
	h := w.randomHost(func(h *host) bool { return running(h) && h.proc.leader })
	if h == nil {
		return false
	}
	o := w.randomHost(func(h *host) bool { return running(h) && !h.proc.leader && h.proc.isVoter() })
	if o == nil {
		return false
	}
	w.logf("%s is deposed without hearing of it", h.id)
	others := w.pick(4) // how many of the other links fall, in thirds
	w.cutLinks(func(i, j int) bool {
		return i == o.i && j == h.i || j == o.i && i == h.i || (i == h.i || j == h.i) && w.n(3) < others
	})
	o.proc.campaign("a coup")
	return true
}

// faultForge makes a leader believe that a running process is gone.
func faultForge(w *world) bool {
	l := w.randomHost(func(h *host) bool { return running(h) && leads(h) })
	x := w.randomHost(func(h *host) bool { return h.proc != nil && h != l })
	if l == nil || x == nil {
		return false
	}
	w.forge(l, x)
	if w.pick(2) == 0 { // and its heartbeats do not arrive either
		w.cutLinks(func(i, j int) bool { return i == x.i && j == l.i || i == l.i && j == x.i })
	}
	return true
}

// forge sends a leader false evidence that connections to a host are refused.
func (w *world) forge(l, x *host) {
	if l == nil {
		return
	}
	w.logf("%s gets evidence that %s refuses connections", l.id, x.id)
	w.cover.forged++
	lead := l.proc.lead
	lead.forged[x.id] = x
	lead.receive(leader.ConnClosed{Node: x.id, Nonce: x.proc.nonce}, origin{})
	lead.receive(leader.CrashEvidence{Node: x.id, Boot: x.proc.bootNow(), Nonce: x.proc.nonce, RedialStartedAt: l.proc.clock()}, origin{})
}

func faultLeave(w *world) bool {
	h := w.anyone()
	if h == nil || h.proc.leaving {
		return false
	}
	w.logf("%s gets SIGTERM", h.id)
	h.proc.leaving, h.proc.leaveBy = true, w.now+8*time.Second
	h.proc.machine.HeartbeatNow()
	d := w.faultDuration()
	var again func()
	again = func() {
		if h.proc == nil && !h.absent {
			h.start()
			return
		}
		w.after(d, nil, again)
	}
	w.after(2*d, nil, again)
	return true
}

func faultUnhealthy(w *world) bool {
	h := w.anyone()
	if h == nil {
		return false
	}
	w.logf("the app of %s is sick", h.id)
	h.becomeUnhealthy()
	w.undo(w.faultDuration(), h.becomeHealthy)
	return true
}

// faultRemove is the statement of an operator about a node whose process is down.
func faultRemove(w *world) bool {
	x := w.randomHost(func(h *host) bool { return h.proc == nil && !h.absent })
	if x == nil {
		return false
	}
	w.logf("an operator states that %s is gone", x.id)
	w.cover.removed++
	for _, h := range w.hosts {
		if running(h) && leads(h) {
			d := w.span(0, 20*time.Millisecond)
			if w.pick(3) == 0 {
				d = w.faultDuration() // the word is slower than the node
			}
			w.after(d, h.proc, func() {
				w.dead[x.id] = true
				h.proc.lead.receive(leader.NodeRemoved{Node: x.id}, origin{})
			})
		}
	}
	return true
}

func faultHold(w *world) bool {
	h := w.anyone()
	if h == nil {
		return false
	}
	w.logf("%s applies nothing", h.id)
	w.hold(h, true)
	w.undo(w.faultDuration(), func() { w.hold(h, false) })
	return true
}

// faultLaggard lets one node apply nothing while a map changes, until it is
// dropped for that; always the same one, so that it is damped.
func faultLaggard(w *world) bool {
	var last *host
	for _, h := range w.hosts {
		if !h.gateway && !h.absent {
			last = h
		}
	}
	other := w.randomHost(func(h *host) bool { return running(h) && h != last })
	if last == nil || other == nil {
		return false
	}
	w.logf("%s applies nothing while the app of %s is sick", last.id, other.id)
	w.hold(last, true)
	other.becomeUnhealthy()
	d := w.pace.AckDeadline() + w.span(100*time.Millisecond, 2*w.deadAfter())
	w.undo(d, func() {
		other.becomeHealthy()
		w.hold(last, false)
	})
	w.run(w.now+d+w.span(0, time.Second), nil)
	return true
}

func faultSlowCut(w *world) bool {
	h := w.anyone()
	if h == nil {
		return false
	}
	w.logf("%s cuts slowly", h.id)
	h.slowCut = true
	w.undo(w.faultDuration(), func() { h.slowCut = false })
	return true
}

func faultUnresponsive(w *world) bool {
	h := w.anyone()
	if h == nil {
		return false
	}
	mute := w.pick(2) == 0
	w.logf("heartbeats (%v) or their answers get lost at %s", mute, h.id)
	h.mute, h.deaf = mute, !mute
	w.undo(w.faultDuration(), func() { h.mute, h.deaf = false, false })
	return true
}

func faultCompact(w *world) bool {
	before := w.cover.snapshots
	for _, h := range w.hosts {
		if running(h) && w.pick(2) == 0 {
			h.proc.compact(uint64(w.pick(3) * w.pick(4)))
		}
	}
	return w.cover.snapshots > before
}

// faultTrail lets a node apply nothing and its log stand still while the others go
// on and forget what it lacks; perhaps it leads then.
func faultTrail(w *world) bool {
	x := w.anyone()
	if x == nil {
		return false
	}
	w.logf("scene: %s trails behind", x.id)
	blocked := w.pick(2) == 0
	w.hold(x, true)
	w.undo(w.faultDuration(), func() { w.hold(x, false) })
	if blocked {
		for i := range w.hosts {
			w.noLog[i][x.i] = true
		}
	}
	for range 1 + w.pick(3) {
		if w.pick(2) == 0 {
			faultElect(w)
		} else {
			faultUnhealthy(w)
		}
		w.run(w.now+w.span(20*time.Millisecond, 250*time.Millisecond), nil)
	}
	for _, h := range w.hosts {
		if running(h) && h != x {
			h.proc.compact(uint64(w.pick(2) * w.pick(8)))
		}
	}
	for i := range w.hosts {
		w.noLog[i][x.i] = false
	}
	w.run(w.now+w.span(0, 150*time.Millisecond), nil)
	switch p := x.proc; {
	case p == nil:
	case w.pick(3) == 0:
		x.crash()
		w.back(x, 0)
	case w.pick(2) == 0:
		p.campaign("far behind")
	}
	w.run(w.now+w.span(50*time.Millisecond, 400*time.Millisecond), nil)
	return true
}

func faultJoin(w *world) bool {
	if h := w.randomHost(func(h *host) bool { return h.absent && h.twin == nil }); h != nil {
		w.logf("%s joins", h.id)
		h.absent = false
		h.start()
		return true
	}
	return faultWeight(w)
}

// faultWeight restarts a node with another weight.
func faultWeight(w *world) bool {
	h := w.anyone()
	if h == nil {
		return false
	}
	h.crash()
	h.weight = uint32(1 + w.pick(4))
	w.back(h, w.span(10*time.Millisecond, 300*time.Millisecond))
	return true
}

// faultStorm changes leaders every few milliseconds for a while, or between every
// two steps.
func faultStorm(w *world) bool {
	hit, times, every := false, 2+w.pick(6), w.pick(3) == 0
	if every {
		times *= 5
	}
	for range times {
		hit = faultElect(w) || hit
		if every {
			w.run(w.now+time.Second, func() bool { return true })
		} else {
			w.run(w.now+w.span(0, 15*time.Millisecond), nil)
		}
	}
	return hit
}
