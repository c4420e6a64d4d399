package ack_test

import (
	"maps"
	"slices"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// Requests of operators in a schedule: to any leader, around elections, for any node.

// queuedPolicy is a change that a leader queued, or the policy of a proposal.
type queuedPolicy struct {
	asked uint64 // the term of the leader that was asked; zero: none was
	zones map[shardmap.NodeID]string
	// heard is whose heartbeat was taken in the turn that submitted the entry: perhaps
	// only after that.
	heard shardmap.NodeID
	// roles are those of the nodes; earlierRoles are those before the heartbeat of the turn, nil if there was none.
	roles, earlierRoles nodeRoles
	// changes are what was asked for; none: the leader does it by itself.
	changes []ack.Change
	// stage is what the leader noted of the proposal.
	stage stageNote
	// reports are what apps do not acquire; earlier is the report of heard before.
	reports map[shardmap.NodeID]appReport
	earlier appReport
	kept    map[shardmap.Shard]bool // what safe drains leave
	// services are those that the leader passes to Assign, and heartbeats the newest ones that it has.
	services   []shardmap.Service
	heartbeats map[shardmap.NodeID]ack.Heartbeat
}

func (l *leaderLoop) policyReason(e leader.Submit, m leader.Message) queuedPolicy {
	p := queuedPolicy{asked: l.term, zones: map[shardmap.NodeID]string{}, changes: l.asked[e.RequestNumber], stage: l.note, reports: l.reportsOf(), roles: l.rolesOf()}
	l.note = stageNote{}
	p.kept = l.turn.KeptShards()
	l.noteServices(&p)
	for _, v := range l.turn.View() {
		if v.SinceHeartbeat >= 0 {
			p.zones[v.Node] = v.Heartbeat.Zone
		}
	}
	if hb, ok := m.(leader.HeartbeatReceived); ok {
		p.heard, p.earlier = hb.Node, l.earlierReport(hb)
		p.earlierRoles = l.earlierRoles(p.roles, hb)
		p.stage.setEarlierInstances(l.earlierHeartbeat(hb), hb)
	}
	if e.RequestNumber > 0 {
		l.p.w.cover.amends++
	}
	return p
}

// zone returns the zone of a host.
func (h *host) zone() string { return []string{"x", "y", ""}[h.i%3] }

// anyChange returns a random policy change. Two of three have a reason.
func (w *world) anyChange() ack.Change {
	node, shard := w.hosts[w.pick(len(w.hosts))].id, shardmap.Shard(w.pick(w.shards+1))
	change := w.anyChangeWithoutReason(node, shard)
	change.Reason = []string{"", "new rack", "réparation"}[shard%3]
	return change
}

// anyChangeWithoutReason returns a random policy change for the node or the shard.
func (w *world) anyChangeWithoutReason(node shardmap.NodeID, shard shardmap.Shard) ack.Change {
	switch w.pick(18) {
	case 0, 1:
		return ack.Change{Kind: ack.ChangeCordon, Node: node}
	case 2, 3, 4:
		return ack.Change{Kind: ack.ChangeDrain, Node: node, SafeDrain: w.pick(2) > 0, ReleaseTimeout: time.Duration(w.pick(3)) * 500 * time.Millisecond}
	case 5, 6:
		return ack.Change{Kind: ack.ChangeUncordon, Node: node}
	case 7:
		return ack.Change{Kind: ack.ChangeWeight, Node: node, Weight: uint32(w.pick(4))}
	case 8:
		return ack.Change{Kind: ack.ChangePin, Shard: shard, Node: node}
	case 9:
		return ack.Change{Kind: ack.ChangePin, Shard: shard, Zone: []string{"x", "y"}[w.pick(2)]}
	case 10:
		return ack.Change{Kind: ack.ChangeUnpin, Shard: shard}
	case 11:
		return ack.Change{Kind: ack.ChangePause, Duration: []time.Duration{300 * time.Millisecond, 2 * time.Second, time.Hour}[w.pick(3)]}
	case 12, 13, 14:
		return w.anyQuarantine()
	case 15, 16:
		return w.anyGradualDrain(node)
	}
	if w.pick(3) == 0 {
		return ack.Change{Kind: ack.ChangeForgetNode, Node: node}
	}
	return ack.Change{Kind: ack.ChangeResume}
}

// changePolicy requests changes from a leader.
func (l *leaderLoop) changePolicy(changes ...ack.Change) bool {
	if l.over || l.busy {
		return false
	}
	number, effects, err := l.turn.ChangePolicy(changes)
	if err == nil {
		l.asked[number] = changes
	}
	l.perform(slices.Clone(effects), leader.Tick{}, origin{})
	if err == nil {
		l.p.w.logf("%s is asked for %+v", l.p.h.id, changes)
	}
	return err == nil
}

// leader returns a host that leads, as far as it knows.
func (w *world) someLeader() *host {
	return w.randomHost(func(h *host) bool { return running(h) && leads(h) })
}

// faultPolicy requests a few changes.
func faultPolicy(w *world) bool {
	h := w.someLeader()
	if h == nil {
		return false
	}
	hit := false
	for range 1 + w.pick(3) {
		if running(h) && leads(h) {
			hit = h.proc.lead.changePolicy(w.anyChange()) || hit
		}
		if w.pick(2) == 0 {
			w.run(w.now+w.span(0, 40*time.Millisecond), nil)
		}
	}
	return hit
}

// faultPolicyElect requests a change during a leader change, and another one from the next
// leader.
func faultPolicyElect(w *world) bool {
	if !faultPolicy(w) {
		return false
	}
	if w.pick(2) == 0 {
		faultElect(w)
	} else {
		faultDepose(w)
	}
	w.run(w.now+w.span(10*time.Millisecond, 400*time.Millisecond), nil)
	faultPolicy(w)
	return true
}

// faultPauseLoss pauses moves and then stops a node: its shards must be placed anyway.
func faultPauseLoss(w *world) bool {
	h := w.someLeader()
	if h == nil || !h.proc.lead.changePolicy(ack.Change{Kind: ack.ChangePause, Duration: time.Hour}) {
		return false
	}
	w.run(w.now+w.span(50*time.Millisecond, 300*time.Millisecond), nil)
	return faultCrash(w)
}

// checkAmendment checks a change of the policy.
func (w *world) checkAmendment(before, after *ack.State, e *logEntry) {
	was, is := before.Policy(), after.Policy()
	w.logf("log: %d asks for %+v", after.Index(), *is)
	w.cover.amended++
	if e.asked != e.term {
		w.fail("policy: a request to the leader of term %d counts in term %d", e.asked, e.term)
	}
	if was.Pause > 0 && is.Pause == 0 && !e.byOperator {
		w.cover.pausesOver++
		// The rates of clocks differ by a tenth.
		if lasted := w.now - w.pausedAt; lasted < was.Pause*9/10 {
			w.fail("policy: a pause of %v is over after %v", was.Pause, lasted)
		}
	}
	if is.PauseIndex != was.PauseIndex {
		w.pausedAt = w.now
	}
	w.countMarks(was, is)
	w.checkServiceList(before, after, e.byOperator)
	w.checkQuarantines(after, e)
	w.checkGradualDrain(before, after, e)
}

// checkPlacement checks a proposal against the instances that nodes have reported. The leader may
// have taken the heartbeat of the turn before or after it proposed, so the check tries both.
func (w *world) checkPlacement(before, after *ack.State, e *logEntry) {
	if e.stage.earlierInstances != nil && w.failure == "" {
		earlier := *e
		earlier.stage.instances = e.stage.earlierInstances
		tracing := w.tracing
		w.tracing = false
		w.checkPlacementOnce(before, after, &earlier)
		passes := w.failure == ""
		w.tracing, w.failure = tracing, ""
		if passes {
			return
		}
	}
	w.checkPlacementOnce(before, after, e)
}

// checkPlacementOnce checks that a proposal is the result of Assign for the previous map and the
// policy in force at its place in the log. Only a leader that submits one entry after the other
// satisfies this.
func (w *world) checkPlacementOnce(before, after *ack.State, e *logEntry) {
	p, base, policy := after.Proposed(), before.Committed(), before.Policy()
	if p.HasSameOwners(before.Proposed()) {
		return // rule 10, and what is proposed once more
	}
	w.checkInstanceDrains(base, p, policy)
	if !slices.ContainsFunc(p.Members(), func(m shardmap.Member) bool { return !policy.IsDraining(m.ID) && !policy.DrainsAll(m.ID, m.Instances) }) {
		w.fail("rule 10: all members of %d are being emptied", p.Epoch())
	}
	w.checkRunners(before, e)
	w.checkNewOrphans(before, after, e)
	by := shardmap.Policy{
		Services: e.services, Replicas: w.replicas[ack.DefaultService], SpreadZones: w.spreadZones,
		Cordoned: policy.Cordoned, Drained: policy.Drained, Weights: policy.Weights, Pins: policy.Pins, Paused: policy.Pause > 0, Zones: e.zones, Restarting: w.absent(before), Barred: w.barred(before),
	}
	for s := range shardmap.Shard(base.Len()) {
		by.PreviousOwners = append(by.PreviousOwners, before.PreviousOwner(s))
	}
	for id := range policy.GradualDrains {
		if by.GraduallyDrained == nil {
			by.GraduallyDrained = map[shardmap.NodeID]bool{}
		}
		by.GraduallyDrained[id] = true
	}
	by.IdleShards = w.checkIdleMoves(before, after, e, by)
	by.KeptShards = e.kept
	members := w.checkStage(before, after, e, &by)
	w.placed = members
	zones := maps.Clone(e.zones)
	delete(zones, e.heard)
	earlier := maps.Clone(e.reports)
	if earlier[e.heard] = e.earlier; e.heard == "" {
		earlier = e.reports
	}
	isAssigned, isNeedless := false, w.mayReplaceNothing(before, after, e)
	for _, by.Zones = range []map[shardmap.NodeID]string{e.zones, zones} {
		for _, reports := range []map[shardmap.NodeID]appReport{e.reports, earlier} {
			for _, roles := range e.roleVariants(policy.Role) {
				restricted, spare := restricted(policy.Role, members, roles, reports, by)
				placement := relocated(base, members, reports, restricted, spare)
				if !p.HasSameOwners(shardmap.Assign(base, members, placement)) {
					continue
				}
				if !isAssigned {
					w.checkRelocated(base, p, members, reports, restricted, spare)
				}
				isAssigned = true
				isNeedless = isNeedless && onlyIdleShardsDiffer(before, members, placement)
				if !isNeedless {
					return
				}
			}
		}
	}
	if isNeedless && isAssigned {
		w.fail("gradual drain: %d replaces %d, and only the idle shards differ", p.Epoch(), before.Proposed().Epoch())
		return
	}
	w.fail("G9: %d does not move the fewest shards from %d that the policy allows", p.Epoch(), base.Epoch())
}

// samePolicy reports whether two states have the same policy.
func samePolicy(a, b *ack.State) bool {
	p, q := a.Policy(), b.Policy()
	return maps.Equal(p.Cordoned, q.Cordoned) && maps.Equal(p.Drained, q.Drained) && maps.Equal(p.Weights, q.Weights) && maps.Equal(p.Pins, q.Pins) && maps.Equal(p.Quarantined, q.Quarantined) && maps.Equal(p.GradualDrains, q.GradualDrains) && maps.Equal(p.DrainOptions, q.DrainOptions) && maps.Equal(p.Reasons, q.Reasons) && maps.Equal(p.MarkedFailed, q.MarkedFailed) && maps.EqualFunc(p.PinFallbacks, q.PinFallbacks, slices.Equal) &&
		p.Pause == q.Pause && p.Role == q.Role && p.PauseIndex == q.PauseIndex && p.ChangedIndex == q.ChangedIndex
}

// drained reports whether the host should own nothing.
func (h *host) drained() bool {
	policy := h.w.truth.Policy()
	return policy.DrainsAll(h.id, h.configured()) || policy.MarkedFailed[h.id]
}

// keepsShards reports whether a safe drain leaves shards at the host.
func (h *host) keepsShards() bool {
	if h.proc == nil || h.app == nil {
		return false
	}
	n, _ := h.proc.machine.KeptShards()
	return n > 0
}

// isExcluded reports whether an operator wants the node to own nothing.
func (w *world) isExcluded(id shardmap.NodeID) bool {
	return w.truth.Policy().IsDraining(id) || w.truth.Policy().MarkedFailed[id]
}

// operate acts as an operator: after the faults, it ensures that some node may own shards.
func (w *world) operate() {
	left := slices.ContainsFunc(w.hosts, func(h *host) bool {
		return !h.gateway && !h.absent && !h.stuck() && !w.isExcluded(h.id) && !h.drained() && h.proc != nil && !h.proc.leaving
	})
	if l := w.someLeader(); !left && l != nil {
		for _, h := range w.hosts {
			if id := h.id; w.isExcluded(id) {
				l.proc.lead.changePolicy(ack.Change{Kind: ack.ChangeUncordon, Node: id})
			} else if h.drained() {
				for _, instance := range h.configured().All() {
					l.proc.lead.changePolicy(ack.Change{Kind: ack.ChangeUncordon, Node: shardmap.InstanceName(id, instance)})
				}
			}
		}
	}
	w.after(w.span(200*time.Millisecond, 600*time.Millisecond), nil, w.operate)
}
