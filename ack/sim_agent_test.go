package ack_test

import (
	"slices"
	"time"

	"shardway/ack"
	"shardway/ack/agent"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// simAgent is the Agent of a node, and the model of what it controls.
type simAgent struct {
	machine *agent.Agent
	routing ack.Routing
	table   *ack.State    // the state by which it routes
	until   time.Duration // of the lease that is published

	leaving, closing, goodbye bool
	restarting
	leaveBy time.Duration // true time at which a leaving process gives up waiting

	reqs []*simReq
	suspicionState
	awaited     bool // the agent waits for the end of some
	stoppedOnce bool
	looked      bool          // the agent has run since the last SIGCONT
	forgedUntil time.Duration // true time until which a forged refusal excuses the requests that it admits
}

func (p *proc) initAgent() {
	p.routing = ack.NewRouting(p.h.id, ack.NewState(), 0, p.h.gateway)
	p.table = p.routing.State()
	p.looked, p.roles = true, p.h.roles
	p.machine = agent.New(agent.Options{
		Node: p.h.id, Server: p.disk.server, Boot: p.disk.boot, Nonce: p.nonce, Pace: p.w.pace, Timing: p.h.flags, Gateway: p.h.gateway, Zone: p.h.zone(), Roles: p.roles, Hooks: p.hookOptions(),
		Gate: p, RaftTerm: func() uint64 { return p.disk.term }, SendHeartbeat: p.send, RaiseBoot: p.raise,
		IsFollowingVoter: func() bool { return !p.leader && p.disk.conf.votes(p.disk.server) },
	}, 0)
	p.initSuspicion()
}

func (p *proc) bootNow() uint64 { return p.machine.Boot() }

// tick polls periodically.
func (p *proc) tick() {
	p.step()
	late := [2]time.Duration{15 * time.Millisecond, 50 * time.Millisecond}
	if p.w.suspicions {
		late = [2]time.Duration{8 * time.Millisecond, 12 * time.Millisecond}
	}
	p.w.after(p.w.span(late[0], late[1]), p, p.tick)
}

// step is one poll.
func (p *proc) step() {
	now := p.clock()
	if p.stopAt(pauseInAgent, func() {
		p.lateStep = true
		p.stepAt(now)
		p.lateStep = false
	}) {
		return
	}
	p.looked = true
	p.stepAt(now)
}

func (p *proc) stepAt(now time.Duration) {
	p.leave()
	acked := p.machine.Acked()
	s := p.reportInstances(agent.Observation{State: p.fsm, Unhealthy: p.h.unhealthy, App: p.h.health(), Leaving: p.leaving, Stopping: p.closing, RestartWithin: p.back, Weight: p.h.weight, KeyConfigDigest: ack.KeyConfigDigest(p.h.keys), Unreachable: p.reportReach(p.fsm)})
	s = p.reportApp(s)
	p.machine.Poll(now, s)
	p.watchLease(now, s)
	if p.leased && p.firstLease == 0 {
		p.firstLease = p.table.Proposed().Epoch()
	}
	p.succeeded = slices.DeleteFunc(p.succeeded, func(o shardEpoch) bool {
		epoch, ok := p.owns(o.shard)
		if ok && epoch == o.epoch || p.opens(o) {
			p.everGot[o] = true
		}
		return ok || p.table.Committed().OwnedSince(o.shard) != o.epoch // else it counts with the next lease
	})
	p.w.checkLook(p)
	p.pollSuspicion(now)
	if e := p.machine.Acked(); e != acked {
		p.w.acked[p.h.i] = max(p.w.acked[p.h.i], e)
		p.w.checkAcknowledged(p)
		p.w.checkGivenUp(p)
	}
}

// PublishLease publishes the lease.
func (p *proc) PublishLease(until time.Duration) (missed bool) {
	last := p.until
	p.until = until
	if (until == 0) != (last == 0) {
		p.w.logf("%s %s", p.h.id, map[bool]string{true: "has a lease", false: "has no lease any more"}[until != 0])
		if until == 0 {
			p.w.checkLapse(p)
		}
	}
	if until > last {
		p.w.checkServing(p)
	}
	if until != 0 && p.firstLease == 0 {
		p.leased = true
	}
	return p.clock() >= last
}

// PublishRouting publishes the routing.
func (p *proc) PublishRouting(r ack.Routing) {
	p.routing = r
	if r.State() != p.table {
		p.table = r.State()
		p.w.checkTable(p)
	}
}

// owns reports whether the routing of the node serves s here, and the ownership epoch.
func (p *proc) owns(s shardmap.Shard) (shardmap.Epoch, bool) {
	r := p.routing.Route(s)
	return r.Epoch, r.Kind == ack.RouteLocal
}

// opens reports whether a shard is served except for a pause of the whole cluster, which may
// end before the node applies a proposal.
func (p *proc) opens(o shardEpoch) bool {
	return p.routing.Route(o.shard).Kind == ack.QueuedPaused && slices.ContainsFunc(p.machine.HeldShards(), func(h agent.HeldShardView) bool {
		return h.Shard == o.shard && h.Epoch == o.epoch && h.Phase == agent.HookServing
	})
}

// CountRunning counts.
func (p *proc) CountRunning(may func(shardmap.Shard) bool) int {
	n := 0
	for _, r := range p.reqs {
		if !may(r.shard) {
			n++
		}
	}
	p.awaited = n > 0
	return n
}

// AbortRequests ends requests. They may count for some time afterwards.
func (p *proc) AbortRequests(why agent.AbortReason, may func(shardmap.Shard) bool) {
	n := 0
	for _, r := range p.reqs {
		if !may(r.shard) && !r.cut {
			r.cut = true
			n++
			d := p.w.span(0, 3*time.Millisecond)
			if p.h.slowCut {
				d = p.w.span(500*time.Millisecond, 4*time.Second)
			}
			p.w.after(d, p, func() { p.finish(r) })
		}
	}
	if why == agent.AbortDraining {
		p.w.cover.cutDrains++
	}
	if n > 0 {
		p.w.cover.cuts += n
		p.w.logf("%s cuts %d requests: %s", p.h.id, n, why)
	}
}

// send sends a heartbeat to the server that the node considers the leader.
func (p *proc) send(hb ack.Heartbeat) {
	w := p.w
	p.heartbeatSent(hb)
	w.checkReport(p, hb)
	if hb.RestartWithin > 0 {
		w.said[speakingBoot{hb.Node, hb.Boot}] = true
	}
	if hb.Goodbye && !p.goodbye {
		p.exitSoon()
	}
	if p.hint < 0 || p.h.mute && w.hosts[p.hint] != p.h {
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
		switch {
		case !p.dead:
			p.connect(q)
		case hb.Number > p.h.lateBeat: // repeated and overtaken ones count for nothing
			p.h.late, p.h.lateBeat = p.h.late+1, hb.Number
		}
		q.lead.receive(leader.HeartbeatReceived{Heartbeat: hb, From: string(p.h.id)}, sent)
	})
}

// answer handles an answer of a leader.
func (p *proc) answer(a ack.Answer) {
	switch p.machine.HandleAnswer(p.clock(), a) {
	case agent.AnswerIgnored:
		return
	case agent.BootSuperseded:
		p.w.cover.refusedBoots++
		p.w.logf("%s learns of its boot %d", p.h.id, a.KnownBoot)
	case agent.DiskRolledBack:
		p.w.diskRolledBack(p, a)
		return
	case agent.DuplicateNode:
		p.w.cover.refusedDuplicates++
	case agent.DuplicatePersists:
		p.w.cover.refusedDuplicates++
		p.duplicatePersists()
	case agent.AnswerCounted:
		p.answerCounted(a)
	}
	p.step()
}

// raise raises the boot. Nothing of the current one may run.
func (p *proc) raise(known uint64) (uint64, bool) {
	if len(p.calls) > 0 {
		p.w.fail("hooks: %s takes a new boot and has %d calls under way", p.h.id, len(p.calls))
	}
	clear(p.got)
	clear(p.owed)
	clear(p.unanswered)
	clear(p.released)
	clear(p.everGot)
	p.succeeded = nil
	p.firstLease, p.leased = 0, false
	p.disk.boot = max(known, p.disk.boot) + 1
	p.w.logf("%s takes boot %d", p.h.id, p.disk.boot)
	return p.disk.boot, true
}

// leave continues a SIGTERM: hand over, finish, send a goodbye, exit.
func (p *proc) leave() {
	if !p.leaving || p.closing {
		return
	}
	p.closing = !p.table.Committed().IsMember(p.h.id) && !p.table.Proposed().IsMember(p.h.id) || p.machine.MapUnchanged() || p.w.now > p.leaveBy
}

// exitSoon ends a process after its goodbye, whether that is received or not.
func (p *proc) exitSoon() {
	w := p.w
	p.goodbye = true
	w.logf("%s sends a goodbye", p.h.id)
	if len(p.reqs) > 0 {
		w.fail("G1: %s sends a goodbye while %d requests run", p.h.id, len(p.reqs))
	}
	if len(p.calls) > 0 {
		w.fail("hooks: %s sends a goodbye while %d calls run", p.h.id, len(p.calls))
	}
	w.checkReleasesAtStop(p)
	if p.back > 0 {
		p.lingerAfterLeaveNotice(w.now + restartEntryWait)
		return
	}
	w.after(w.span(50*time.Millisecond, 300*time.Millisecond), p, func() {
		w.logf("%s exits", p.h.id)
		p.h.crash()
	})
}
