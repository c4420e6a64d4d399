package ack_test

import (
	"slices"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// Nodes that only some other nodes can reach: each process probes the others, and its heartbeats report those
// that it cannot connect to. The leader excludes a member that most other members report
// (docs/internals/protocol-reachability.md). The checks count the reports themselves.

// reachTolerance covers the time between two inputs of a leader, and a pause within one of its turns.
const reachTolerance = 150 * time.Millisecond

// probes is what a process has found about the connections to other hosts.
type probes struct {
	cannotReach [simHosts]bool
}

// probe tries to connect to the other hosts. A failure is known after the timeout of the attempt.
func (p *proc) probe() {
	w := p.w
	for _, h := range w.hosts {
		if h == p.h || h.absent {
			continue
		}
		if w.link[p.h.i][h.i] && w.link[h.i][p.h.i] && running(h) {
			p.cannotReach[h.i] = false
			continue
		}
		w.after(w.span(20*time.Millisecond, 150*time.Millisecond), p, func() { p.cannotReach[h.i] = true })
	}
	w.after(w.span(60*time.Millisecond, 200*time.Millisecond), p, p.probe)
}

// reportReach adds the unreachable hosts to an observation.
func (p *proc) reportReach(s *ack.State) (nodes []shardmap.NodeID) {
	if !p.w.reaches {
		return nil
	}
	for _, h := range p.w.hosts {
		drop, _ := s.Drop(h.id)
		if p.cannotReach[h.i] && (s.Proposed().IsMember(h.id) || s.Committed().IsMember(h.id) || drop.Cause == ack.CauseUnreachable) {
			nodes = append(nodes, h.id)
		}
	}
	return nodes
}

// cutFor stops messages in both directions between the hosts for which cut holds, for d.
func (w *world) cutFor(d time.Duration, cut func(i, j int) bool) bool {
	var was [][2]int
	for i := range w.hosts {
		for j := range w.hosts {
			if i != j && w.link[i][j] && (cut(i, j) || cut(j, i)) {
				w.link[i][j] = false
				was = append(was, [2]int{i, j})
			}
		}
	}
	w.undo(d, func() {
		for _, l := range was {
			w.link[l[0]][l[1]] = true
		}
		w.logf("%d links are back", len(was))
	})
	return len(was) > 0
}

// spoke draws a host that only the leader, and perhaps one more host, will reach.
func (w *world) spoke() (x *host, isCut func(i, j int) bool) {
	l := w.randomHost(func(h *host) bool { return running(h) && leads(h) })
	x = w.randomHost(func(h *host) bool { return running(h) && h != l && !h.gateway })
	if l == nil || x == nil {
		return nil, nil
	}
	also := l
	if w.pick(4) == 0 {
		also = w.hosts[w.pick(len(w.hosts))]
	}
	w.logf("only %s and %s reach %s", l.id, also.id, x.id)
	return x, func(i, j int) bool { return i == x.i && j != l.i && j != also.i }
}

// faultSpoke leaves a node that only the leader, and perhaps one more node, can reach.
func faultSpoke(w *world) bool {
	x, cut := w.spoke()
	if x == nil {
		return false
	}
	w.cover.spokes++
	d := w.deadAfter() + w.span(-300*time.Millisecond, 5*time.Second)
	hit := w.cutFor(d, cut)
	if w.pick(2) == 0 {
		w.run(w.now+d+w.span(0, 2*w.deadAfter()), nil)
	}
	return hit
}

// faultSpokeFlap does so several times.
func faultSpokeFlap(w *world) bool {
	x, cut := w.spoke()
	if x == nil {
		return false
	}
	for range 2 + w.pick(4) {
		d := w.deadAfter() + w.span(-200*time.Millisecond, 1500*time.Millisecond)
		w.cutFor(d, cut)
		w.run(w.now+d+w.span(50*time.Millisecond, 3*w.deadAfter()), nil)
	}
	return true
}

// faultStar leaves only the links of the leader.
func faultStar(w *world) bool {
	l := w.randomHost(func(h *host) bool { return running(h) && leads(h) })
	if l == nil {
		return false
	}
	w.logf("only %s reaches the others", l.id)
	d := 2*w.deadAfter() + w.span(0, 4*time.Second)
	hit := w.cutFor(d, func(i, j int) bool { return i != l.i && j != l.i })
	w.run(w.now+d+w.span(0, w.deadAfter()), nil)
	return hit
}

// reachSeen is what a leader has received about unreachable nodes, counted independently of it.
type reachSeen struct {
	turnClock time.Duration                     // the last time that the driver has read
	granted   map[shardmap.NodeID]time.Duration // its last lease from this leader
	boots     map[shardmap.NodeID]uint64
	since     map[shardmap.NodeID]time.Duration // since when most members report it
	ended     map[shardmap.NodeID]time.Duration // when they stopped
	dueSince  time.Duration                     // since when a member should be excluded; negative: none should
	lastTick  time.Duration
}

func newReachSeen() reachSeen {
	return reachSeen{dueSince: -1, granted: map[shardmap.NodeID]time.Duration{}, boots: map[shardmap.NodeID]uint64{}, since: map[shardmap.NodeID]time.Duration{}, ended: map[shardmap.NodeID]time.Duration{}}
}

// countReports counts the reports after a message, before its effects other than replies are judged.
func (l *leaderLoop) countReports(now time.Duration) {
	x, w := &l.reach, l.p.w
	if !w.reaches || !l.waits.barrier {
		return
	}
	lease := l.driverState().Timing().Lease
	last := l.driverState().Proposed()
	views := l.turn.View()
	var voices []leader.MemberView
	for _, v := range views {
		hb := l.beats[v.Node]
		if boot := x.boots[v.Node]; boot != 0 && boot != hb.Boot {
			delete(x.granted, v.Node) // the lease of the previous process
		}
		granted, ok := x.granted[v.Node]
		if ok && now-granted <= lease && last.IsMember(v.Node) && !hb.Gateway && !hb.Goodbye && !v.Silent && !v.Crashed {
			voices = append(voices, v)
		}
	}
	for _, v := range views {
		others, reports := 0, 0
		for _, voice := range voices {
			if voice.Node == v.Node {
				continue
			}
			others++
			if slices.Contains(l.beats[voice.Node].Unreachable, v.Node) {
				reports++
			}
		}
		_, was := x.since[v.Node]
		isNewProcess := x.boots[v.Node] != l.beats[v.Node].Boot
		x.boots[v.Node] = l.beats[v.Node].Boot
		isReported := reports >= 2 && 2*reports > others
		switch {
		case isReported && (!was || isNewProcess):
			x.since[v.Node] = now
			w.cover.majorities++
		case !isReported && was:
			delete(x.since, v.Node)
			x.ended[v.Node] = now
		}
	}
}

// checkReach checks a proposal: it excludes a node only after most members have reported it for dead-after, one node at
// a time and less than half of them, and a node returns only some time after the end of the reports.
func (l *leaderLoop) checkReach(e leader.Submit, now time.Duration) {
	told, w := l.driverState(), l.p.w
	if !w.reaches || e.Commit || told.Proposed().Epoch() == 0 {
		return
	}
	next, outcome, err := told.Apply(told.Index()+1, l.term, e.Entry)
	if err != nil || outcome != ack.OutcomeProposed {
		return
	}
	deadAfter := told.Timing().DeadAfter
	isOut := func(s *ack.State, id shardmap.NodeID) bool {
		drop, _ := s.Drop(id)
		return drop.InForce && drop.Cause == ack.CauseUnreachable
	}
	chosen, out, underWay := shardmap.NodeID(""), 0, false
	for _, v := range l.turn.View() {
		id := v.Node
		was, is := isOut(told, id), isOut(next, id)
		underWay = underWay || was && is && told.Committed().IsMember(id)
		if is && v.SinceHeartbeat >= 0 && !v.Silent && !v.Crashed && !v.Heartbeat.Leaving && !v.Heartbeat.Goodbye && !v.Heartbeat.Unhealthy {
			out++
		}
		switch {
		case is && !was:
			if chosen != "" {
				w.fail("reach: %s and %s are excluded at once", chosen, id)
			}
			chosen = id
			if since, ok := l.reach.since[id]; !ok || now-since < deadAfter-reachTolerance {
				w.fail("reach: %s is excluded, and most members have reported it for %v (%v)", id, now-since, ok)
			}
			w.cover.unreached++
		case was && next.Proposed().IsMember(id):
			l.checkReachReturn(told, id, now)
		}
	}
	if chosen != "" && underWay {
		w.fail("reach: %s is excluded before the shards of another unreachable node have moved", chosen)
	}
	if have := len(next.Proposed().Members()); chosen != "" && out >= have {
		w.fail("reach: %d nodes are excluded and %d remain", out, have)
	}
}

// checkReachReturn checks that a node returns no sooner than it may.
func (l *leaderLoop) checkReachReturn(told *ack.State, id shardmap.NodeID, now time.Duration) {
	w := l.p.w
	for _, v := range l.turn.View() {
		drop, _ := told.Drop(v.Node)
		isOut := drop.InForce && drop.Cause == ack.CauseUnreachable
		if v.Node != id && v.Eligible && v.HoldTime == 0 && !isOut && !told.Policy().IsDraining(v.Node) && l.apps.able[v.Node] {
			drop, _ = told.Drop(id)
			wait := told.Timing().DeadAfter
			if drop.ConsecutiveDrops > 1 {
				wait += flapFirst << (drop.ConsecutiveDrops - 2)
				w.cover.laterReturns++
			}
			ended, ok := l.reach.ended[id]
			if !ok {
				ended = l.turn.StartedAt()
			}
			if _, still := l.reach.since[id]; still || now-ended < wait-reachTolerance {
				w.fail("reach: %s is back %v after the end of the reports (they continue: %v), and must wait for %v", id, now-ended, still, wait)
			}
			w.cover.reached++
			return
		}
	}
}

// judgeReach checks that a leader excludes a member that most members have reported for long enough.
func (l *leaderLoop) judgeReach() {
	x, told := &l.reach, l.driverState()
	now := l.p.clock()
	stalled := now-x.lastTick > 60*time.Millisecond
	x.lastTick = now
	deadAfter := told.Timing().DeadAfter
	isDue := false
	owners, excluded := 0, 0
	for _, v := range l.turn.View() {
		drop, _ := told.Drop(v.Node)
		isOut := drop.InForce && drop.Cause == ack.CauseUnreachable
		isAlive := v.SinceHeartbeat >= 0 && !v.Silent && !v.Crashed && !v.Heartbeat.Leaving && !v.Heartbeat.Goodbye && !v.Heartbeat.Gateway
		switch {
		case isOut && isAlive:
			owners++
			excluded++
		case v.Eligible && !told.Policy().IsDraining(v.Node) && !v.Restarting:
			owners++
			since, ok := x.since[v.Node]
			isDue = isDue || ok && now-since > deadAfter+reachTolerance && told.Proposed().IsMember(v.Node)
		}
	}
	mayExclude := isDue && 2*(excluded+1) < owners && !told.HasOpenProposal() && l.waits.base == nil && l.waits.barrier && now >= l.waits.notBefore
	switch {
	case !mayExclude || l.p.disk.term != l.term || !l.p.leader:
		x.dueSince = -1
	case x.dueSince < 0 || stalled:
		x.dueSince = now
	case now-x.dueSince > 2*lossWait:
		l.p.w.fail("reach: %s excludes no member for %v, and most members have reported one for longer than dead-after", l.p.h.id, now-x.dueSince)
	}
}
