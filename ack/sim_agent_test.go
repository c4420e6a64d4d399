package ack_test

import (
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// agent is a node's own side of the protocol, in the order of package node's
// agent: lease, table, drain, acknowledge.
type agent struct {
	holder   *ack.Holder
	follower *ack.Follower
	table    *ack.State // what it routes by
	until    time.Duration
	lastEnd  time.Duration // when the last lease ended, or will
	inForce  bool
	nextBeat time.Duration
	burst    int
	echoTerm uint64
	reboot   uint64

	oldTerm   uint64 // the term as it was read a while ago, for a planted mistake
	oldTermAt time.Duration

	leaving, closing, goodbye bool
	stays                     bool
	leaveBy                   time.Duration // true time at which a leaving process gives up waiting

	reqs        []*simReq
	stoppedOnce bool
	looked      bool          // the agent has run since the last SIGCONT
	forgedUntil time.Duration // true time until which a forged refusal excuses what it admits
}

func (p *proc) initAgent() {
	p.holder = ack.NewHolder(p.disk.boot, 0)
	p.follower = ack.NewFollower(p.h.id, p.w.pace.DrainTimeout)
	p.table = p.follower.State()
	p.looked = true
}

func (p *proc) bootNow() uint64 { return p.holder.Boot() }

// tick looks at everything now and then.
func (p *proc) tick() {
	p.step()
	p.w.after(p.w.span(15*time.Millisecond, 50*time.Millisecond), p, p.tick)
}

// step is one look at everything that may have changed.
func (p *proc) step() {
	now := p.clock()
	if p.pausesAt(pauseInAgent, func() { p.stepAt(now) }) {
		return
	}
	p.looked = true
	p.stepAt(now)
}

func (p *proc) stepAt(now time.Duration) {
	p.holder.Tick(now)
	p.publishLease()
	if p.fsm != p.follower.State() {
		p.table = p.fsm
		p.w.sawTable(p)
		p.follower.Applied(now, p.fsm)
	}
	if p.cutDue(now) && p.w.plant != plantNeverCut {
		p.cut("the lease was not renewed", func(shardmap.Shard) bool { return true })
	}
	p.drain(now)
	p.takeBoot()
	p.leave()
	if now >= p.nextBeat && p.reboot == 0 {
		p.beat(now)
	}
	if now-p.oldTermAt > 4*p.w.pace.Heartbeat {
		p.oldTerm, p.oldTermAt = p.disk.term, now
	}
}

func (p *proc) publishLease() {
	until, ok := p.holder.Until()
	if p.closing {
		ok = false
	}
	if !ok {
		p.until = 0
	} else if until != p.until {
		p.until, p.lastEnd = until, until
		p.w.checkServing(p)
	}
	if ok != p.inForce {
		p.inForce = ok
		p.burst = 0
		p.w.logf("%s %s", p.h.id, map[bool]string{true: "has a lease", false: "has no lease any more"}[ok])
	}
}

// owns reports whether the node's table serves s here, and the ownership epoch.
func (p *proc) owns(s shardmap.Shard) (shardmap.Epoch, bool) {
	c, l := p.table.Committed(), p.table.Last()
	if p.w.plant == plantRouteProposed {
		return l.OwnedSince(s), l.Epoch() != 0 && l.Owner(s) == p.h.id
	}
	if c.Epoch() == 0 || c.Owner(s) != p.h.id {
		return 0, false
	}
	if p.table.Open() && l.Owner(s) != p.h.id && p.w.plant != plantNoHold {
		return 0, false
	}
	return c.OwnedSince(s), true
}

// cutDue is the holder's, or, as a planted mistake, the node's own flags decide.
func (p *proc) cutDue(now time.Duration) bool {
	if p.w.plant != plantOwnFlags {
		return p.holder.CutDue(now)
	}
	_, held := p.holder.Until()
	return !held && len(p.reqs) > 0 && now >= p.lastEnd+p.h.flags.CutAfter()
}

// drain acknowledges once nothing runs for a shard that must not run here.
func (p *proc) drain(now time.Duration) {
	e := p.follower.Draining()
	if e == 0 {
		return
	}
	running := 0
	for _, r := range p.reqs {
		if !p.follower.MayRun(r.shard) {
			running++
		}
	}
	if running == 0 || p.w.plant == plantAckEarly {
		p.follower.Drained(e)
		p.w.acked[p.h.i] = max(p.w.acked[p.h.i], e)
		p.nextBeat = 0
		return
	}
	if p.follower.CutDue(now) && p.w.plant != plantNeverCutDrain {
		p.w.cover.cutDrains++
		p.cut("their shards move", func(s shardmap.Shard) bool { return !p.follower.MayRun(s) })
	}
}

// cut ends requests; the proxy may need a moment to count them as ended.
func (p *proc) cut(why string, which func(shardmap.Shard) bool) {
	n := 0
	for _, r := range p.reqs {
		if which(r.shard) && !r.cut {
			r.cut = true
			n++
			d := p.w.span(0, 3*time.Millisecond)
			if p.h.slowCut {
				d = p.w.span(500*time.Millisecond, 4*time.Second)
			}
			p.w.after(d, p, func() { p.finish(r) })
		}
	}
	if n > 0 {
		p.w.cover.cuts += n
		p.w.logf("%s cuts %d requests: %s", p.h.id, n, why)
	}
}

// beat sends a heartbeat: the echo is read before the term.
func (p *proc) beat(now time.Duration) {
	w := p.w
	p.nextBeat = now + w.pace.Heartbeat
	term := p.disk.term
	if w.plant == plantTermBeforeEcho {
		term = p.oldTerm
	}
	number, echo := p.holder.Beat(now)
	if p.hint < 0 {
		return
	}
	hb := ack.Heartbeat{
		Node: p.h.id, Server: p.disk.server, Boot: p.holder.Boot(), Nonce: p.nonce, Number: number, Echo: echo,
		Term: term, Applied: p.table.Committed().Epoch(), Acked: p.follower.Acked(), Weight: p.h.weight,
		Unhealthy: p.h.unhealthy, Leaving: p.leaving, Goodbye: p.goodbye, Gateway: p.h.gateway,
	}
	if p.h.mute && w.hosts[p.hint] != p.h {
		return
	}
	if w.coded {
		b, _ := hb.MarshalBinary()
		if err := hb.UnmarshalBinary(b); err != nil {
			w.fail("heartbeat: %v", err)
		}
	}
	sent, to := origin{p.h, w.now}, w.hosts[p.hint]
	if w.perMille(w.astray) {
		to = w.hosts[w.n(len(w.hosts))]
	}
	w.send(p.h, to, func(q *proc) {
		if q.lead == nil {
			return
		}
		if !p.dead {
			p.connect(q)
		}
		q.lead.receive(ack.Heard{Heartbeat: hb, From: string(p.h.id)}, sent)
	})
}

// answer takes an answer of a leader.
func (p *proc) answer(a ack.Answer) {
	switch {
	case a.Boot != p.holder.Boot() && p.w.plant != plantAnyBoot:
		return
	case a.Refusal == ack.RefusedBoot:
		if p.reboot == 0 && a.Known > p.holder.Boot() && p.w.plant != plantNoReboot {
			p.reboot = a.Known
			p.w.cover.refusedBoots++
			p.w.logf("%s is told of boot %d of itself", p.h.id, a.Known)
		}
	case a.Refusal == ack.RefusedRollback:
		p.w.wentBack(p, a)
		return
	case a.Refusal == ack.RefusedDuplicate:
		p.w.cover.refusedDuplicates++
	default:
		if !p.holder.Answered(p.clock(), p.disk.term, a) {
			break
		}
		p.stays = a.MapStays
		if a.Term != p.echoTerm {
			p.echoTerm, p.burst = a.Term, 0
		}
		if _, held := p.holder.Until(); !held && !p.h.gateway && p.burst < 8 {
			p.burst++
			p.nextBeat = min(p.nextBeat, p.clock()+10*time.Millisecond)
		}
	}
	p.step()
}

// takeBoot takes a higher boot once nothing of the present one runs.
func (p *proc) takeBoot() {
	if p.reboot == 0 {
		return
	}
	p.holder.Void()
	p.publishLease()
	if len(p.reqs) > 0 {
		p.cut("new boot", func(shardmap.Shard) bool { return true })
		return
	}
	p.disk.boot = max(p.reboot, p.disk.boot) + 1
	p.holder.Reboot(p.disk.boot)
	p.w.logf("%s takes boot %d", p.h.id, p.disk.boot)
	p.reboot, p.nextBeat = 0, 0
}

// leave is what SIGTERM began: hand over, finish, say goodbye, exit.
func (p *proc) leave() {
	if !p.leaving || p.goodbye {
		return
	}
	w := p.w
	handed := !p.table.Committed().Has(p.h.id) && !p.table.Last().Has(p.h.id) || p.stays || w.now > p.leaveBy
	if !handed && !p.closing {
		return
	}
	if !p.closing {
		p.closing = true
		p.publishLease()
	}
	if len(p.reqs) > 0 {
		p.cut("the node leaves", func(shardmap.Shard) bool { return true })
		return
	}
	p.goodbye, p.nextBeat = true, 0
	w.logf("%s says goodbye", p.h.id)
	w.after(w.span(50*time.Millisecond, 300*time.Millisecond), p, func() {
		w.logf("%s exits", p.h.id)
		p.h.crash()
	})
}
