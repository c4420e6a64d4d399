package ack_test

import (
	"errors"
	"iter"
	"slices"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// leaderLoop runs one leadership: its steps, and the model of their effects.
type leaderLoop struct {
	p       *proc
	term    uint64
	turn    *leader.Driver
	over    bool
	barrier uint64 // index of the barrier; zero: not appended, or told already
	appends uint64 // the term in which the barrier was appended
	// proposes: the leader has proposed a map.
	proposes bool

	halt  func() // stops the process where it is; nil: it is not to be stopped within a turn
	goOn  func() // lets it go on
	busy  bool   // stopped in the middle of a turn
	inbox []func()
	taken map[*host]bool // forged evidence about it has arrived
	// acked is what the newest heartbeat that was answered has acknowledged.
	acked map[shardmap.NodeID]shardmap.Epoch
	left  map[shardmap.NodeID]bool // and whether it was to own nothing
	// beats has the newest heartbeats that were answered, delivered what came of releases.
	beats     map[shardmap.NodeID]ack.Heartbeat
	prior     map[shardmap.NodeID]ack.Heartbeat // the heartbeats before those in beats
	delivered map[[32]byte]*ack.Releases        // by their digest
	message   leader.Message                    // the message of this turn
	forged    map[shardmap.NodeID]*host         // with forged evidence that the leader has not handled yet
	waits     waits
	apps      appsSeen
	asked     map[uint64][]ack.Change // by the number of their entry
	staging
	reach reachSeen
	// mostUnhealthy are the services of which most apps were unhealthy at the last tick, by ID.
	mostUnhealthy map[uint64]bool
}

// startLeading begins a leadership after an election.
func (p *proc) startLeading() {
	w := p.w
	if !p.leader {
		return
	}
	if p.lead != nil && !p.lead.over {
		w.after(5*time.Millisecond, p, p.startLeading)
		return
	}
	l := &leaderLoop{p: p, term: p.disk.term, taken: map[*host]bool{}, acked: map[shardmap.NodeID]shardmap.Epoch{}, left: map[shardmap.NodeID]bool{}, beats: map[shardmap.NodeID]ack.Heartbeat{}, prior: map[shardmap.NodeID]ack.Heartbeat{}, delivered: map[[32]byte]*ack.Releases{}, forged: map[shardmap.NodeID]*host{}, asked: map[uint64][]ack.Change{}, waits: waits{expect: w.founders(), lostSince: -1}, apps: appsSeen{healthy: map[shardmap.NodeID]time.Duration{}, few: -1, idle: -1}, reach: newReachSeen()}
	l.turn = leader.NewDriver(leader.DriverOptions{
		Leader: leader.Options{Server: p.disk.server, Term: l.term, Pace: w.pace, Timing: p.h.flags, BootstrapExpect: l.waits.expect, Replicas: w.replicas, SpreadZones: w.spreadZones},
		Raft:   l, Clock: l.clock, NewestState: func() *ack.State { return p.fsm },
		KeyConfig: func() string { return p.h.keys }, ServicesOf: servicesOfKeys,
	})
	p.lead = l
	w.logf("%s leads term %d from map %d, last %d", p.h.id, l.term, l.driverState().Committed().Epoch(), l.driverState().Proposed().Epoch())
	if l.driverState().HasOpenProposal() {
		w.cover.openLeads++
	}
	w.after(0, p, l.tick)
	w.after(w.span(0, 100*time.Millisecond), p, l.members)
	p.machine.HeartbeatNow()
	for i, broke := range p.broken {
		if broke.boot != 0 {
			p.redial(w.hosts[i], 3)
		}
	}
}

// origin is the sender of a message, and when it was sent.
type origin struct {
	host *host
	at   time.Duration
}

func (l *leaderLoop) end() {
	if l.p.leader && l.p.disk.term == l.term || l.over {
		return
	}
	l.over = true
	l.p.w.logf("%s has ended its leadership of term %d", l.p.h.id, l.term)
}

func (l *leaderLoop) tick() {
	if l.over {
		return
	}
	l.receive(leader.Tick{}, origin{})
	l.queryIdleShards()
	l.p.w.after(l.p.w.span(10*time.Millisecond, 40*time.Millisecond), l.p, l.tick)
}

// issueBarrier submits the barrier to Raft, which may accept it late or refuse it.
func (l *leaderLoop) issueBarrier() {
	p, w := l.p, l.p.w
	d := w.span(0, 3*time.Millisecond)
	if w.perMille(w.lateSubmit) {
		d = w.span(5*time.Millisecond, 2500*time.Millisecond)
		w.cover.lateBarriers++
	}
	w.after(d, p, func() {
		if l.over {
			return
		}
		if p.raftAccepts() && !w.perMille(w.lateSubmit/2) {
			l.barrier, l.appends = p.appendEntry(&logEntry{}), p.disk.term
			l.lookForBarrier()
			return
		}
		w.cover.failedBarriers++
		w.logf("%s could not submit a barrier", p.h.id)
		w.after(w.span(0, 1100*time.Millisecond), p, func() { l.receive(leader.BarrierFailed{}, origin{}) })
	})
}

// lookForBarrier reports the barrier to the driver once it is applied.
func (l *leaderLoop) lookForBarrier() {
	p := l.p
	if l.barrier == 0 || p.raftApplied < l.barrier || !p.leader || p.disk.term != l.appends {
		return
	}
	l.barrier = 0
	p.w.after(p.w.span(0, 2*time.Millisecond), p, l.bootstrap)
}

// driverState returns the state that the driver works with.
func (l *leaderLoop) driverState() *ack.State { return l.turn.State() }

// Term returns the term of the own Raft server. The process may be paused before and after
// that.
func (l *leaderLoop) Term() uint64 {
	l.mayStop(pauseBeforeTerm)
	term := l.p.disk.term
	l.mayStop(pauseAfterTerm)
	return term
}

// Voters returns those of the own log.
func (l *leaderLoop) Voters() []string    { return l.p.disk.conf.voters }
func (l *leaderLoop) Nonvoters() []string { return l.p.disk.conf.others }

func (l *leaderLoop) clock() time.Duration {
	now := l.p.clock()
	l.mayStop(pauseBeforeStep)
	l.reach.turnClock = now
	return now
}

// receive handles a message; nil only applies the newest state.
func (l *leaderLoop) receive(m leader.Message, from origin) {
	if _, gone := m.(leader.CrashEvidence); gone {
		clear(l.from) // a node is no member until its next heartbeat: then additions are gathered again
	}
	if l.over {
		return
	}
	if l.busy {
		l.inbox = append(l.inbox, func() { l.receive(m, from) })
		return
	}
	if m == nil {
		m = leader.Tick{}
	}
	if at := l.p.h.pauseAt; at != pauseBeforeTerm && at != pauseAfterTerm && at != pauseBeforeStep {
		l.perform(l.turn.Step(m), m, from)
		return
	}
	l.receiveHalting(m, from)
}

// receiveHalting handles a message in a coroutine, within which the process may be paused.
func (l *leaderLoop) receiveHalting(m leader.Message, from origin) {
	var effects []leader.Effect
	next, end := iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if r := recover(); r != nil && r != any(errEnded) {
				panic(r)
			}
		}()
		l.halt = func() {
			if !yield(struct{}{}) {
				panic(errEnded)
			}
		}
		effects = l.turn.Step(m)
	})
	w := l.p.w
	w.unfinished = append(w.unfinished, end)
	l.goOn = func() {
		if _, l.busy = next(); l.busy {
			return
		}
		l.halt = nil
		l.perform(effects, m, from)
		for !l.busy && len(l.inbox) > 0 {
			first := l.inbox[0]
			l.inbox = l.inbox[1:]
			first()
		}
	}
	l.goOn()
}

// errEnded ends what was stopped within a turn when the schedule is over.
var errEnded = errors.New("the schedule is over")

// mayStop pauses the process here, if planned.
func (l *leaderLoop) mayStop(at pausePoint) {
	if l.halt != nil && l.p.stopAt(at, func() { l.goOn() }) {
		l.halt()
	}
}

func (l *leaderLoop) perform(effects []leader.Effect, m leader.Message, from origin) {
	w, now, counted := l.p.w, l.reach.turnClock, false
	l.message = m
	if evidence, ok := m.(leader.CrashEvidence); ok && l.forged[evidence.Node] != nil {
		l.taken[l.forged[evidence.Node]] = true // only now: a heartbeat can have been handled before
		delete(l.forged, evidence.Node)
	}
	if d, ok := m.(leader.ReleasesReceived); ok {
		l.delivered[d.Digest()] = &d.Releases
	}
	for _, e := range effects {
		switch e := e.(type) {
		case leader.Reply:
			h, ok := m.(leader.HeartbeatReceived)
			if !ok {
				w.fail("G5: an answer to %s without a heartbeat", e.To)
				return
			}
			w.checkReply(l, h, from.at, e.Answer)
			if e.Refusal == 0 {
				delete(l.taken, from.host) // a heartbeat that counts voids evidence
				l.prior[h.Node] = l.beats[h.Node]
				l.acked[h.Node], l.left[h.Node], l.beats[h.Node] = h.Acked, h.Leaving || h.Goodbye, h.Heartbeat
				if e.ServeFor > 0 {
					l.reach.granted[h.Node] = now
				}
				l.leaveNoticeReceived(h.Heartbeat)
				l.recordAppHealth(h.Heartbeat)
			}
			l.reply(from.host, h.Nonce, e.Answer)
		case leader.Submit:
			l.checkSubmit(e)
			l.checkHealth(e)
			l.countReports(now)
			counted = true
			l.checkReach(e, now)
			l.submit(e, m)
		case leader.Barrier:
			l.issueBarrier()
		case leader.IdleShardsQuery:
			l.sendIdleQuery(e)
		case leader.StepDown:
			w.cover.stepDowns[e.Reason]++
			w.logf("%s steps down: %s", l.p.h.id, e.Reason)
			l.delayLossCheck(5 * time.Second)
			w.after(w.span(0, 5*time.Millisecond), l.p, l.transfer)
		case leader.Event:
			l.noted(e)
		}
	}
	if !counted {
		l.countReports(now)
	}
	l.checkMessage(m)
}

// reply sends an answer to the process that the host has by then, although nodes send it over
// the connection of the heartbeat: the boot in the answer identifies the process. Two kinds of
// answers need that connection: one that ends a process, and one for another process with the
// same boot after the disk was wiped.
func (l *leaderLoop) reply(to *host, nonce uint64, a ack.Answer) {
	w := l.p.w
	if w.coded {
		b, _ := a.MarshalBinary()
		if err := a.UnmarshalBinary(b); err != nil {
			w.fail("answer: %v", err)
		}
	}
	w.send(l.p.h, to, func(q *proc) {
		if (!to.deaf || to == l.p.h) && (q.nonce == nonce || a.Refusal != ack.RefusedRollback && a.Boot != q.machine.Boot()) {
			q.answer(a)
		}
	})
}

// submit submits an entry to Raft, sometimes so late that the leadership is over, or the next
// one of the same process has begun.
func (l *leaderLoop) submit(e leader.Submit, m leader.Message) {
	w, p := l.p.w, l.p
	entry, policed := slices.Clone(e.Entry), l.policyReason(e, m)
	d := w.span(0, time.Millisecond)
	if w.perMille(w.lateSubmit) {
		d = w.span(5*time.Millisecond, 2500*time.Millisecond)
		w.cover.lateSubmits++
	}
	w.after(d, p, func() {
		if p.raftAccepts() && !w.perMille(w.lateSubmit/4) {
			i := p.appendEntry(&logEntry{data: entry, commit: e.Commit, byOperator: e.RequestNumber > 0, queuedPolicy: policed})
			w.logf("%s appends %s at %d", p.h.id, map[bool]string{true: "a commit", false: "a proposal"}[e.Commit], i)
			return
		}
		w.cover.failedSubmits++
		w.logf("%s could not submit an entry", p.h.id)
		w.after(w.span(0, 2*time.Millisecond), p, func() { l.receive(leader.SubmitFailed{}, origin{}) })
	})
}

// transfer asks another reachable voter to campaign.
func (l *leaderLoop) transfer() {
	p, w := l.p, l.p.w
	if !p.leader || p.disk.term != l.term {
		return
	}
	first := w.n(len(w.hosts))
	for k := range w.hosts {
		h := w.hosts[(first+k)%len(w.hosts)]
		if q := h.proc; q != nil && q != p && !h.stopped && q.isVoter() && p.disk.conf.has(h.server()) && w.reach(p.h, h) {
			w.replicate(p, h)
			q.campaign("leadership was handed over")
			return
		}
	}
}

func (l *leaderLoop) noted(e leader.Event) {
	w, id := l.p.w, l.p.h.id
	switch e.Kind {
	case leader.EventProposing:
		l.noteStage(e)
		w.cover.rounds[e.Reason]++
		if !l.proposes && l.driverState().HasOpenProposal() {
			w.cover.foundOpen++
		}
		l.proposes = true
		w.logf("%s proposes from map %d: %s, %d moves", id, e.Epoch, e.Reason, e.Moved)
	case leader.EventNodeExcluded:
		w.cover.drops[e.Cause.String()]++
		w.logf("%s drops %s: %s", id, e.Node, e.Cause)
	case leader.EventCommitting:
		w.logf("%s commits %d", id, e.Epoch)
		l.expectReleases(e.Epoch)
		for _, m := range l.driverState().Proposed().Members() {
			if l.acked[m.ID] < e.Epoch && !l.driverState().Restarting(m.ID) {
				w.fail("G4: %s commits %d, and the live boot of %s has acknowledged %d", id, e.Epoch, m.ID, l.acked[m.ID])
			}
		}
	case leader.EventTakeover:
		w.cover.takeovers[e.Reason]++
		w.logf("%s takes from %s by %s", id, e.Node, e.Reason)
		if e.Reason == "evidence" || e.Reason == "refusal" {
			w.takenByEvidence(l, e.Node, e.Reason)
		}
	case leader.EventDuplicate:
		w.logf("%s sees two of %s", id, e.Node)
	case leader.EventNodeUnresponsive:
		w.logf("%s receives nothing from %s", id, e.Node)
	case leader.EventRestart:
		w.logf("%s has %s absent for %v", id, e.Node, e.Grace)
		if e.Grace > 0 {
			l.announceKept(e.Node)
		}
	case leader.EventNodeRecovered:
		w.logf("%s receives heartbeats of %s again", id, e.Node)
	case leader.EventNoteRejected:
		w.fail("hooks: a note of %s is too long", e.Node)
	case leader.EventNodeUnreachable:
		w.logf("%s: %v cannot connect to %s", id, e.Reporters, e.Node)
	case leader.EventNodeReachable:
		w.logf("%s: most members can connect to %s again", id, e.Node)
	}
}
