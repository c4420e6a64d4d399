package ack_test

import (
	"maps"
	"slices"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// Planned changes in stages, in a schedule: the leader asks owners which shards are idle,
// moves those, and moves busy shards at drain-timeout.

// stageChecks is global knowledge about the answers of owners, by leader, owner and map.
type stageChecks struct {
	// answered has the newest answer that counted; no entry: none since the last query.
	answered map[idleReport]map[shardmap.Shard]bool
	// firstAnswer: no map had taken shards from the owner before.
	firstAnswer map[idleReport]bool
	// busy are the shards that the newest answer, by whatever map, did not report as idle.
	busy map[idleReport]map[shardmap.Shard]bool
	// ended: the change is over for which the owner was asked.
	ended map[idleReport]bool
	// silent owners had not answered the first query of a change.
	silent map[idleReport]bool
}

func newStagingChecks() stageChecks {
	return stageChecks{answered: map[idleReport]map[shardmap.Shard]bool{}, firstAnswer: map[idleReport]bool{}, silent: map[idleReport]bool{}, ended: map[idleReport]bool{}, busy: map[idleReport]map[shardmap.Shard]bool{}}
}

// staging is what the world knows of a leader's change.
type staging struct {
	note stageNote
	// since is when the leader first deferred a move of an owner.
	since map[shardmap.NodeID]time.Duration
	query time.Duration // when the last one was put
	// unstagedSince is since when no moves are deferred and none are proposed.
	unstagedSince time.Duration
	// from is since when moves of an owner are deferred and no round is open.
	from map[shardmap.NodeID]time.Duration
}

// stageNote is what the leader reported about the proposal that it submits next.
type stageNote struct {
	deferred map[shardmap.NodeID]bool
	// left are the deferred owners that leave.
	left map[shardmap.NodeID]bool
	// early are owners that the leader deferred before and does not defer now, although they
	// are well and drain-timeout is not over.
	early map[shardmap.NodeID]bool
	busy  int
	// instances are those of the newest heartbeat of each node in this term. earlierInstances are
	// those before the heartbeat of the turn; nil if they are the same.
	instances, earlierInstances map[shardmap.NodeID]shardmap.InstanceSet
	// deferring are, in a cluster with services, the instances of each deferred owner that have not failed.
	deferring map[shardmap.NodeID]shardmap.InstanceSet
	// pauses: as far as the leader knew, each map pauses the cluster.
	pauses bool
}

// sendIdleQuery sends a query of the leader to an owner. Query and answer are
// delayed, and may get lost.
func (l *leaderLoop) sendIdleQuery(e leader.IdleShardsQuery) {
	w, id := l.p.w, e.Node
	l.noteDeferred(id)
	l.query = l.p.clock()
	key := idleReport{l.term, id, l.driverState().Committed().Epoch()}
	if !e.OpenRound {
		delete(w.answered, key)
		delete(w.ended, key)
		delete(w.busy, idleReport{l.term, id, 0})
	}
	if e.QueryNumber == 0 && !e.OpenRound {
		w.silent[key] = true
	}
	for _, h := range w.hosts {
		if h.id != id {
			continue
		}
		w.send(l.p.h, h, func(q *proc) {
			m := q.idle()
			m.IsAnswer = true
			w.send(h, l.p.h, func(p *proc) {
				if p.lead == l && !l.over {
					l.receiveIdleAnswer(m)
				}
			})
		})
	}
}

// receiveIdleAnswer delivers an answer.
func (l *leaderLoop) receiveIdleAnswer(m leader.IdleShards) {
	w := l.p.w
	if l.busy {
		l.inbox = append(l.inbox, func() { l.receiveIdleAnswer(m) })
		return
	}
	if l.driverState().HasOpenProposal() {
		w.cover.freed++
		l.receive(m, origin{})
		return
	}
	waits, first := l.turn.AwaitsIdleShards(m.Node)
	key := idleReport{l.term, m.Node, m.MapEpoch}
	told := map[shardmap.Shard]bool{}
	for _, s := range m.Shards {
		told[s] = true
	}
	// The proposal may be a part of the turn that takes the answer. The leader waits for 100 ms:
	// a later answer may count.
	if waits && m.MapEpoch == l.driverState().Committed().Epoch() {
		inTime := l.p.clock()-l.query < 90*time.Millisecond
		// The leader applies a newer state of its log before the answer. If an urgent change becomes
		// due by that state, the leader proposes it without the answer.
		appliesFirst := l.driverState() != l.p.fsm
		w.answered[key], w.firstAnswer[key] = told, first && inTime && !appliesFirst
		w.busy[idleReport{l.term, m.Node, 0}] = l.busyAt(m)
		if inTime {
			delete(w.silent, key)
		}
	}
	l.receive(m, origin{})
}

// busyAt returns the shards of the node that an answer does not report as idle.
func (l *leaderLoop) busyAt(m leader.IdleShards) map[shardmap.Shard]bool {
	busy := map[shardmap.Shard]bool{}
	for s := range l.driverState().Committed().Shards(m.Node) {
		busy[s] = !slices.Contains(m.Shards, s)
	}
	return busy
}

// endAnswers records owners whose moves the leader no longer defers: answers count for one
// change only.
func (l *leaderLoop) endAnswers() {
	base := l.driverState().Committed()
	if l.driverState().HasOpenProposal() {
		return
	}
	for _, m := range base.Members() {
		if !l.turn.DefersMoves(m.ID) {
			l.p.w.ended[idleReport{l.term, m.ID, base.Epoch()}] = true
		}
	}
}

// noteDeferred records that a leader defers moves of an owner.
func (l *leaderLoop) noteDeferred(id shardmap.NodeID) {
	if l.since == nil {
		l.since = map[shardmap.NodeID]time.Duration{}
	}
	if _, known := l.since[id]; !known {
		l.since[id] = l.p.clock()
	}
}

// noteStage records the moves that a proposal defers.
func (l *leaderLoop) noteStage(e leader.Event) {
	l.note = stageNote{deferred: map[shardmap.NodeID]bool{}, left: map[shardmap.NodeID]bool{}, early: map[shardmap.NodeID]bool{}, busy: e.DeferredShards, pauses: l.driverState().Timing().RebalanceMode == ack.RebalanceStopTheWorld}
	l.note.instances = map[shardmap.NodeID]shardmap.InstanceSet{}
	for _, v := range l.turn.View() {
		if v.SinceHeartbeat >= 0 {
			l.note.instances[v.Node] = v.Heartbeat.Instances
		}
	}
	l.note.deferring = l.deferringInstances(e.Deferred)
	for _, id := range e.Deferred {
		l.note.deferred[id], l.note.left[id] = true, l.left[id]
		l.noteDeferred(id)
	}
	for id, since := range l.since {
		if l.isWell(id) && !l.note.deferred[id] && l.p.clock()-since < l.p.w.pace.DrainTimeout*8/10-50*time.Millisecond {
			l.note.early[id] = true
		}
	}
	w := l.p.w
	if len(e.Deferred) > 0 {
		w.cover.staged++
	}
	w.cover.deferred += e.DeferredShards
}

// isWell reports whether no known condition forbids deferring moves of an owner.
func (l *leaderLoop) isWell(id shardmap.NodeID) bool {
	v, _ := l.viewOf(id)
	d, _ := l.driverState().Drop(id)
	return anyServiceHealthy(v.Heartbeat) && !d.InForce && !v.Silent && !v.Crashed && !v.Restarting && !v.Heartbeat.Unhealthy && !v.Heartbeat.Goodbye && v.SinceHeartbeat >= 0 && v.Heartbeat.Acked >= l.driverState().Committed().Epoch()
}

// checkStage judges what a proposal takes from owners whose moves the leader stages. It adds
// them to the policy, and returns the members that may own shards in the end.
func (w *world) checkStage(before, after *ack.State, e *logEntry, by *shardmap.Policy) []shardmap.Member {
	p, base, policy := after.Proposed(), before.Committed(), before.Policy()
	members := slices.DeleteFunc(e.stage.candidates(before, p.Members()), func(m shardmap.Member) bool {
		return e.stage.deferred[m.ID] && (policy.DrainsAll(m.ID, m.Instances) || e.stage.left[m.ID])
	})
	w.checkEarly(before, after, e)
	if len(e.stage.deferred) == 0 {
		return members
	}
	if e.stage.pauses {
		w.fail("staging: %d is one of several, and each pauses the cluster", p.Epoch())
	}
	underRole, spare := restricted(policy.Role, members, e.roles, e.reports, *by)
	final := shardmap.Assign(base, members, relocated(base, members, e.reports, underRole, spare))
	idle := map[shardmap.Shard]bool{}
	maps.Copy(idle, by.IdleShards)
	by.DefersMoves, by.IdleShards = e.stage.deferred, idle
	for s := range shardmap.Shard(base.Len()) {
		from := base.Owner(s)
		if !e.stage.deferred[from] {
			continue
		}
		if e.stage.hasFailed(before, s) {
			by.IdleShards[s] = true // it must not wait
			continue
		}
		key := idleReport{e.asked, from, base.Epoch()}
		goes, told, silent := !p.HasSameOwner(base, s), w.answered[key][s] && !w.ended[key], w.silent[key] && !w.ended[key]
		open := before.HasOpenProposal() && !before.Proposed().HasSameOwner(base, s)
		switch {
		case goes && !told && !open && !silent:
			w.fail("staging: %d takes busy shard %d from %s", p.Epoch(), s, from)
		case !goes && told && w.firstAnswer[key] && !w.placesNewService(base, p) && !before.HasOpenProposal() && final.Owner(s) != from && len(e.reports[e.heard].failed) == len(e.earlier.failed):
			w.fail("staging: %d leaves idle shard %d with %s", p.Epoch(), s, from)
		case goes:
			by.IdleShards[s] = true
			w.cover.stagedIdle++
		}
	}
	return members
}

// checkEarly judges a map that defers nothing of an owner any more. A change of the keys may do
// that early, for it drains every shard.
func (w *world) checkEarly(before, after *ack.State, e *logEntry) {
	if after.ChangesKeyConfig() {
		return
	}
	base, p, policy := before.Committed(), after.Proposed(), before.Policy()
	for id := range e.stage.early {
		if _, emptied := policy.GradualDrains[id]; emptied || before.HasOpenProposal() || !w.wasDeferred(id, before) {
			continue
		}
		drop, _ := after.Drop(id)
		isExcludedNow := drop.Epoch == p.Epoch() && drop.Cause == ack.CauseUnreachable
		if isExcludedNow || policy.MarkedFailed[id] {
			continue
		}
		for s := range base.Shards(id) {
			if w.busy[idleReport{e.asked, id, 0}][s] && p.Owner(s) != id {
				w.fail("staging: %d takes busy shard %d from %s before drain-timeout", p.Epoch(), s, id)
			}
		}
	}
}

// forgetBusy forgets what the node has answered: the requests of its process have ended with it.
func (w *world) forgetBusy(id shardmap.NodeID) {
	maps.DeleteFunc(w.busy, func(i idleReport, _ map[shardmap.Shard]bool) bool { return i.node == id })
}

// wasDeferred reports whether no known entry prevents deferring moves of the owner.
func (w *world) wasDeferred(id shardmap.NodeID, s *ack.State) bool {
	return s.Timing().RebalanceMode == ack.RebalanceIncremental && !w.drainedOnce(id)
}

// drainedOnce reports that the node was emptied at some time: at the end of that nothing is
// deferred.
func (w *world) drainedOnce(id shardmap.NodeID) bool {
	for a := range w.emptyAt {
		if a.node == id {
			return true
		}
	}
	return false
}

// judgeStage judges that a leader defers moves for drain-timeout, and no longer.
func (l *leaderLoop) judgeStage(now time.Duration, stalled bool) {
	owners := map[shardmap.NodeID]bool{}
	for _, v := range l.turn.View() {
		if v.DefersMoves {
			owners[v.Node] = true
		}
	}
	staged := len(owners) > 0
	if staged || l.driverState().HasOpenProposal() || l.waits.base != nil || l.p.h.keys != l.driverState().KeyConfig() {
		l.unstagedSince = now
	}
	if now-l.unstagedSince > 2*l.p.w.pace.Heartbeat+50*time.Millisecond {
		// The next change begins again. The change of an owner which is not well for a moment goes
		// on, and so does one that waits for a change of the keys, which defers nothing. The leader
		// notices after a heartbeat that the owner is well, and pauses as long after a failed entry.
		maps.DeleteFunc(l.since, func(id shardmap.NodeID, _ time.Duration) bool { return l.isWell(id) })
	}
	if stalled || l.driverState().HasOpenProposal() || l.waits.base != nil || !l.waits.barrier || now < l.waits.notBefore || l.p.disk.term != l.term {
		clear(owners)
	}
	maps.DeleteFunc(l.from, func(id shardmap.NodeID, _ time.Duration) bool { return !owners[id] })
	gathering := min(max(l.driverState().Timing().DeadAfter, l.driverState().PreviousTiming().DeadAfter)/5, 2*time.Second) // additions are gathered before
	for id := range owners {
		since, known := l.from[id]
		if !known {
			since = now
			if l.from == nil {
				l.from = map[shardmap.NodeID]time.Duration{}
			}
			l.from[id] = now
		}
		if now-since > l.p.w.pace.DrainTimeout+lossWait+gathering {
			l.p.w.fail("staging: %s defers moves of %s for %v", l.p.h.id, id, now-since)
		}
	}
}
