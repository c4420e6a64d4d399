package leader

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// reconcile advances the round: the change from one committed map to the next, which consists of a
// proposal, its acknowledgements and a commit. It compares the present state with the wanted one.
// The last message is only a hint that something may have changed, so a lost message does no harm.
func (l *Leader) reconcile(now time.Duration) {
	if l.leases.revoked || now < l.resumeAt {
		return
	}
	if !l.barrierApplied {
		if now-l.electedAt > max(l.maxTiming.DeadAfter, minBarrierTime) {
			l.stepDown(now, "barrier not applied within dead-after")
		}
		return
	}
	// One entry at a time (rule 1): the next one depends on the fate of this one.
	if l.entryInFlight {
		if now-l.submittedAt > l.options.Pace.AckDeadline() {
			l.stepDown(now, "entry neither applied nor refused")
		}
		return
	}
	if !l.state.Bootstrapped() || !l.checkMembers(now) || l.submitPolicyChange(now) || l.submitRestart(now) || l.submitAppReports(now) {
		return
	}
	l.unblockRound(now)
	a, needed := l.neededMap(now)
	switch {
	case !needed:
		l.changeWantedSince = -1
		if l.ownRoundOpen() {
			l.tryCommit(now)
		}
	case l.changeWantedSince < 0:
		l.changeWantedSince = now
	}
	switch {
	case l.changeWantedSince < 0 || a.stageMap == nil:
	case now-l.changeWantedSince >= l.batchDelay(a.finalMap):
		if l.mayProposeStage(now, a) {
			l.propose(now, a)
		}
	case l.ownRoundOpen() && l.onlyAddsNodes(a.finalMap):
		// The round continues while further changes are batched for the next one.
		l.tryCommit(now)
	}
}

// neededMap returns the map that the leader should propose. needed is false if no proposal is
// needed, because a round of this term already has the final map, or an open round has all of it
// except deferred moves.
func (l *Leader) neededMap(now time.Duration) (a *assignment, needed bool) {
	members := l.eligibleMembers(now)
	a = l.assign(members)
	l.updateStages(now, a)
	a = l.assign(members) // updateStages may have discarded answers
	l.planStage(now, a)
	last := l.state.Proposed()
	switch {
	case l.state.Committed().Epoch() == 0 && len(members) == 0:
		return &assignment{}, false
	case l.state.HasOpenProposal() && !l.ownRoundOpen():
		return a, true // an earlier leader left its proposal open
	case !l.state.HasOpenProposal() && !l.ownRoundCommitted:
		return a, true // rule 4
	case l.state.HasOpenProposal() && a.stageMap.SameAs(last) && l.keyConfigChangeBlocked():
		return a, true // the same map is proposed again, without the key configuration
	case !l.state.HasOpenProposal() && a.finalMap.SameAs(last) && l.keyConfigToActivate(now) != "":
		return a, true
	case !l.state.HasOpenProposal() && a.finalMap.SameAs(last) && l.mapRequested:
		return a, true // an operator has requested a new map
	case !l.state.HasOpenProposal() && a.finalMap.SameAs(last), l.state.HasOpenProposal() && a.stageMap.SameAs(last):
		return &assignment{}, false
	}
	return a, true
}

// assignment caches the result of assign, because assign runs in every step and its inputs
// seldom change.
type assignment struct {
	members             []shardmap.Member
	committed, proposed *shardmap.Map
	policy              *ack.Policy
	restarting          map[shardmap.NodeID]bool
	keptShards          map[shardmap.Shard]bool
	inputsVersion       uint64
	idleVersion         uint64
	// finalMap is the target map. losing are the owners from which it takes shards.
	finalMap     *shardmap.Map
	losingOwners []shardmap.NodeID
	// stageMap is the map that may be proposed now. It differs from final only in the moves that
	// the owners in staged defer.
	stageMap        *shardmap.Map
	deferringOwners map[shardmap.NodeID]bool
	// isUrgent means that want contains an urgent change, so the leader must propose it before the
	// owners have answered which of their shards are idle.
	isUrgent        bool
	departuresIndex uint64
}

// assign returns an assignment with the final map for members. While its inputs are unchanged, it
// returns the previous assignment, including want and staged. Without members the last map remains
// (rule 10), even if it is only proposed: the committed map may contain a dropped node, which must
// not become an owner again.
func (l *Leader) assign(members []shardmap.Member) *assignment {
	base, last, policy, absent := l.state.Committed(), l.state.Proposed(), l.state.Policy(), l.restartingNodes()
	if a := &l.lastAssignment; a.finalMap != nil && a.committed == base && a.proposed == last && a.policy == policy && maps.Equal(a.restarting, absent) && maps.Equal(a.keptShards, l.keptShards) && a.inputsVersion == l.inputsVersion && a.idleVersion == l.gradualDrains.version && a.departuresIndex == l.state.DeparturesIndex() && slices.Equal(a.members, members) {
		return a
	}
	final := last
	var from []shardmap.NodeID
	if len(members) > 0 {
		final = shardmap.Assign(base, members, l.assignPolicy(policy, absent, members))
		from = ownersLosingShards(base, final)
	}
	l.lastAssignment = assignment{
		members: slices.Clone(members), committed: base, proposed: last, policy: policy, restarting: absent, keptShards: l.keptShards, inputsVersion: l.inputsVersion, idleVersion: l.gradualDrains.version, departuresIndex: l.state.DeparturesIndex(),
		finalMap: final, losingOwners: from,
	}
	return &l.lastAssignment
}

// planStage sets a.want, the map that may be proposed now. A change of the map may be proposed in
// several stages, so that busy shards do not delay idle ones.
func (l *Leader) planStage(now time.Duration, a *assignment) {
	staged := l.deferringOwners(now, a.losingOwners)
	if a.stageMap != nil && maps.Equal(a.deferringOwners, staged) {
		return
	}
	a.stageMap, a.deferringOwners = a.finalMap, staged
	if len(staged) > 0 {
		p := l.assignPolicy(a.policy, a.restarting, a.members)
		p.Staged = staged
		a.stageMap = shardmap.Assign(a.committed, a.members, p)
		a.isUrgent = l.isUrgent(a)
	}
}

// assignPolicy returns the placement policy for shardmap.Assign.
func (l *Leader) assignPolicy(policy *ack.Policy, absent map[shardmap.NodeID]bool, members []shardmap.Member) shardmap.Policy {
	p := policy.Placement(l.zones())
	p.Absent, p.Before = absent, l.state.PreviousOwners()
	p.Idle = l.gradualDrains.idle
	p.Barred = l.state.BarredShards()
	l.avoidFailingApps(&p, members)
	p.Kept = l.keptShards
	return p
}

// changeReason returns the most important reason for the map want, as metrics spell it.
func (l *Leader) changeReason(now time.Duration, want *shardmap.Map) string {
	last := l.state.Proposed()
	for _, m := range last.Members() {
		if !want.Has(m.ID) {
			return l.exclusionReason(now, l.member(m.ID))
		}
	}
	for _, m := range want.Members() {
		if !last.Has(m.ID) {
			return l.joinReason(m.ID)
		}
	}
	for _, m := range want.Members() {
		if l.state.Policy().DrainsGradually(m.ID) && want.Count(m.ID) < last.Count(m.ID) {
			return "drain"
		}
	}
	if reason := l.stagedReason(); reason != "" {
		return reason // a later map of the same change
	}
	if slices.Equal(want.Members(), last.Members()) {
		return "policy" // a pin, a cordon or the end of a pause
	}
	return "weight"
}

// joinReason returns why a node gets its first shards, as metrics spell it. The next leader does
// not know about an uncordoned node, so the reason there is "join".
func (l *Leader) joinReason(id shardmap.NodeID) string {
	if l.uncordoned[id] {
		return "uncordon"
	}
	return "join"
}

// exclusionReason returns why a node must not be a member, as metrics spell it.
func (l *Leader) exclusionReason(now time.Duration, n *member) string {
	switch {
	case l.exclusionCause(now, n) != 0:
		return l.exclusionCause(now, n).String()
	case n.hasCrashed():
		return ack.CauseCrashed.String()
	case n.heartbeat.Leaving || n.heartbeat.Goodbye:
		return "leave"
	case l.excludedForHealth(n):
		return "app-unhealthy"
	case l.state.Policy().Drained[n.id]:
		return "drain"
	}
	return ack.CauseSilent.String()
}

// proposalReason returns the reason of a proposal for log, events and metrics. A leader that
// repeats the open proposal of another leader keeps its reason. The first round of a leader
// that changes nothing has the reason "new leader".
func (l *Leader) proposalReason(now time.Duration, a *assignment) string {
	switch same := a.stageMap.SameAs(l.state.Proposed()); {
	case same && l.state.HasOpenProposal():
		return l.state.ProposalReason()
	case same && l.ownRoundCommitted && l.keyConfigToActivate(now) != "":
		return reasonKeyConfig
	case same && l.ownRoundCommitted && l.mapRequested:
		return reasonRequested
	case same:
		return reasonNewLeader
	}
	return l.changeReason(now, a.finalMap)
}

// reasonNewLeader is the reason of a round that changes nothing. It makes every node
// acknowledge to a newly elected leader (rule 4).
const reasonNewLeader = "new leader"

// reasonKeyConfig is the reason of a round that activates another key configuration and moves no
// shard.
const reasonKeyConfig = "keys"

// reasonRequested is the reason of a round that an operator requested and that moves no shard.
const reasonRequested = "requested"

// eligibleMembers returns the members of the next map, ordered by id: the nodes that may own
// shards, and the nodes that restart in place.
func (l *Leader) eligibleMembers(now time.Duration) []shardmap.Member {
	last := l.state.Proposed()
	for _, m := range last.Members() {
		l.member(m.ID)
	}
	ms, anybody := l.eligibleBuf[:0], false
	for id, n := range l.members {
		absent := l.isRestarting(n)
		if !absent && !l.isEligible(now, n) {
			continue
		}
		anybody = anybody || !absent && !l.state.Policy().DrainsGradually(id)
		m := shardmap.Member{ID: id, Weight: n.heartbeat.Weight}
		if absent || !n.hasHeartbeat() {
			was, _ := findMember(last, id)
			m.Weight = was.Weight
		}
		ms = append(ms, m)
	}
	if !anybody {
		ms = ms[:0]
	}
	slices.SortFunc(ms, func(a, b shardmap.Member) int { return cmp.Compare(a.ID, b.ID) })
	l.eligibleBuf, l.keptShards = ms, l.findKeptShards(now)
	return ms
}

// isEligible reports whether the node may be in the next map.
func (l *Leader) isEligible(now time.Duration, n *member) bool {
	return l.eligibleIgnoringFlaps(now, n) && (l.appsHealth.onlyHeldBack || !l.isHeldBack(now, n))
}

// eligibleIgnoringFlaps is eligible without the hold on apps that became unhealthy repeatedly.
func (l *Leader) eligibleIgnoringFlaps(now time.Duration, n *member) bool {
	if n.removed || l.excludedForHealth(n) || n.heartbeat.Leaving || n.heartbeat.Goodbye || n.heartbeat.Gateway || n.hasCrashed() || l.exclusionCause(now, n) != 0 {
		return false
	}
	if l.state.Policy().Drained[n.id] {
		return false
	}
	d, _ := l.state.Drop(n.id)
	switch {
	case d.InForce && d.Cause.MissedRound():
		// Rule 3: it must have acknowledged the proposal that dropped it, and wait for
		// the pause after repeated misses.
		since, ok := l.droppedAt[n.id]
		if !ok {
			since = l.electedAt
		}
		return n.hasAcked(d.Epoch) && n.hasAcked(l.state.Committed().Epoch()) && !n.isSilent(now, l.options.Pace) && now-since >= flapPause(d.Strikes)
	case d.InForce || !l.state.Proposed().Has(n.id):
		return n.freshStreak >= requiredStreak && l.canServe(now, n) && !n.isSilent(now, l.options.Pace) && n.hasAcked(l.state.Committed().Epoch())
	case !n.hasHeartbeat():
		// An election by itself moves nothing (rule 4, why 18).
		return now-l.electedAt < l.maxTiming.DeadAfter
	}
	return !n.isSilent(now, l.options.Pace)
}

// canServe reports whether a node could serve shards immediately because it has a lease. The first
// lease of a boot takes one or two heartbeats longer than the other conditions of eligibility.
// A member of the committed map owns its shards already, and before the first map there are no
// leases.
func (l *Leader) canServe(now time.Duration, n *member) bool {
	c := l.state.Committed()
	return n.hadLease && now-n.lastGrantAt <= l.maxTiming.Lease || c.Has(n.id) || c.Epoch() == 0
}

// exclusionCause returns why a member of the last map must be dropped although the leader
// receives its heartbeats; zero if it need not.
func (l *Leader) exclusionCause(now time.Duration, n *member) ack.DropCause {
	last := l.state.Proposed()
	switch {
	case !last.Has(n.id):
		return 0
	case n.removed:
		return ack.CauseRemoved
	case l.isRestarting(n) || !n.hasHeartbeat() || n.isSilent(now, l.options.Pace) || n.hasCrashed():
		return 0
	case l.ownRoundOpen() && now-max(l.roundStartedAt, n.restart.endedAt) > l.ackDeadline(n) && !n.hasCompleteAck(last.Epoch()):
		return ack.CauseMissedAck
	case n.behindSince >= 0 && now-max(n.behindSince, n.restart.endedAt) > l.options.Pace.AckDeadline():
		return ack.CauseBehind
	}
	return 0
}

// checkMembers emits events for members that became silent or returned, and counts missed
// acknowledgements. It returns false if every member missed the deadline: then the fault is
// probably at the leader, which steps down.
func (l *Leader) checkMembers(now time.Duration) bool {
	last := l.state.Proposed()
	acked, missed := 0, 0
	for _, m := range last.Members() {
		n := l.member(m.ID)
		if silent := n.hasHeartbeat() && n.isSilent(now, l.options.Pace) && !l.isRestarting(n); silent != n.wasSilent {
			n.wasSilent = silent
			kind := EventBack
			if silent {
				kind = EventSilent
			}
			l.emit(Event{Kind: kind, Node: n.id})
		}
		switch {
		case n.hasCompleteAck(last.Epoch()):
			acked++
		case l.exclusionCause(now, n) == ack.CauseMissedAck:
			missed++
		}
	}
	if acked == 0 && missed > 0 {
		l.stepDown(now, "no member acknowledged")
		return false
	}
	l.denyLateLeases(now)
	return true
}

// denyLateLeases denies leases to owners that the open proposal excludes without a drop (they
// leave, or their app is unhealthy) and that do not acknowledge it in time. Otherwise the
// round would wait for them forever (why 14).
func (l *Leader) denyLateLeases(now time.Duration) {
	if !l.ownRoundOpen() {
		return
	}
	last := l.state.Proposed()
	for _, m := range l.state.Committed().Members() {
		if n := l.member(m.ID); now-l.roundStartedAt > l.ackDeadline(n) && !last.Has(m.ID) && !n.hasCompleteAck(last.Epoch()) {
			n.leaseDeniedUntil = last.Epoch()
		}
	}
}

// ackDeadline returns how long n may take to acknowledge a proposal. A node with hooks gets
// the additional time that it reports.
func (l *Leader) ackDeadline(n *member) time.Duration {
	return l.options.Pace.AckDeadline() + n.heartbeat.ReleaseTime
}

// propose submits a proposal of a.want, based on the committed map, with a record of every
// dropped node and the cause.
func (l *Leader) propose(now time.Duration, a *assignment) {
	want := a.stageMap
	p := ack.ProposalEntry{Term: l.options.Term, Base: l.state.Committed().Epoch(), Reason: l.proposalReason(now, a), Want: want}
	if !l.state.HasOpenProposal() || l.state.ChangesKeyConfig() {
		p.KeyConfig = l.keyConfigToActivate(now)
	}
	for id, cause := range l.exclusions(now, want) {
		p.Drops = append(p.Drops, ack.DropRecord{Node: id, Cause: cause, Strikes: l.countMissedAcks(now, id, cause)})
	}
	slices.SortFunc(p.Drops, func(a, b ack.DropRecord) int { return cmp.Compare(a.Node, b.Node) })
	entry, err := ack.EncodeProposal(l.state.FormatVersion(), p)
	if err != nil {
		// Every map of shardmap.Assign can be encoded.
		panic(err)
	}
	l.changeWantedSince, l.entryInFlight, l.submittedAt = -1, true, now
	l.mapRequested = false
	l.emit(Event{
		Kind: EventProposing, Epoch: p.Base, Moved: len(shardmap.Diff(l.state.Committed(), want)), Reason: p.Reason,
		Joined: membersMissingFrom(want, l.state.Committed()), Left: membersMissingFrom(l.state.Committed(), want),
		Deferred: slices.Sorted(maps.Keys(a.deferringOwners)), Busy: len(shardmap.Diff(want, a.finalMap)),
	})
	l.countStage(now, want)
	for _, d := range p.Drops {
		l.emit(Event{Kind: EventDropped, Node: d.Node, Cause: d.Cause})
	}
	l.emit(Submit{Entry: entry})
}

// membersMissingFrom returns the members of m that other does not have.
func membersMissingFrom(m, other *shardmap.Map) (nodes []shardmap.NodeID) {
	for _, x := range m.Members() {
		if !other.Has(x.ID) {
			nodes = append(nodes, x.ID)
		}
	}
	return nodes
}

// exclusions returns the nodes that want drops, with the causes. These are members of the
// committed map or of the last proposal. Nodes that leave, are drained or have an unhealthy
// app are excluded without a drop.
func (l *Leader) exclusions(now time.Duration, want *shardmap.Map) map[shardmap.NodeID]ack.DropCause {
	out := map[shardmap.NodeID]ack.DropCause{}
	for _, m := range slices.Concat(l.state.Committed().Members(), l.state.Proposed().Members()) {
		n := l.member(m.ID)
		if want.Has(m.ID) {
			continue
		}
		d, _ := l.state.Drop(m.ID)
		switch {
		case l.exclusionCause(now, n) != 0:
			out[m.ID] = l.exclusionCause(now, n)
		case d.InForce:
			// Already dropped for the same cause: keep the record, because its epoch is
			// the proposal that the node must acknowledge.
		case n.hasCrashed():
			out[m.ID] = ack.CauseCrashed
		case n.hasHeartbeat() && n.isSilent(now, l.options.Pace), now-l.electedAt >= l.maxTiming.DeadAfter && !n.hasHeartbeat():
			// A drained node may be excluded before the leader knows whether it is silent.
			out[m.ID] = ack.CauseSilent
		}
	}
	return out
}

// countMissedAcks counts missed acknowledgements that follow each other within ack.FlapWindow. A
// new leader has no record of the time of the last one, and uses the time of its election.
func (l *Leader) countMissedAcks(now time.Duration, id shardmap.NodeID, c ack.DropCause) uint32 {
	d, ok := l.state.Drop(id)
	if !c.MissedRound() {
		return d.Strikes
	}
	since, known := l.droppedAt[id]
	if !known {
		since = l.electedAt
	}
	if !ok || now-since > ack.FlapWindow {
		return 1
	}
	return d.Strikes + 1
}

// tryCommit submits the commit of the open proposal once every member has acknowledged it and
// no excluded owner may still serve (G4, rule 5).
func (l *Leader) tryCommit(now time.Duration) {
	p := l.state.Proposed()
	for _, m := range p.Members() {
		if !l.needsNoFurtherAck(l.member(m.ID), p) {
			return
		}
	}
	base := l.state.Committed()
	var taken []Event
	for _, m := range base.Members() {
		if p.Has(m.ID) || base.Count(m.ID) == 0 {
			continue
		}
		how := l.takeoverRule(now, l.member(m.ID), p.Epoch())
		if how == "" {
			return
		}
		taken = append(taken, Event{Kind: EventTakeover, Node: m.ID, Epoch: p.Epoch(), Reason: how})
	}
	for _, n := range taken {
		l.emit(n)
	}
	// From this step on, a lease requires an acknowledgement of p.
	l.committing, l.entryInFlight, l.submittedAt = p.Epoch(), true, now
	l.emit(Event{Kind: EventCommitting, Epoch: p.Epoch()})
	c := ack.CommitEntry{Epoch: p.Epoch(), Digest: p.Digest()}
	c.Released, c.Servers = l.releasesToCommit(base, p)
	l.emit(Submit{Entry: ack.EncodeCommit(l.state.FormatVersion(), c), Commit: true})
}

// awaitsCrashRestart reports whether RestartGrace delays a takeover: for a crashed node that
// may restart, or for a restarted node that is not eligible yet.
func (l *Leader) awaitsCrashRestart(now time.Duration, n *member) bool {
	if n.removed || n.heartbeat.Leaving || n.heartbeat.Unhealthy {
		return false
	}
	return n.hasCrashed() && now-n.crashSeenAt < l.options.Pace.RestartGrace ||
		n.rebooted && now-n.firstHeartbeatAt < l.options.Pace.RestartGrace
}

// takeoverRule returns the rule by which the shards of a node that p excludes may be taken, or
// "" if they may not be taken yet (docs/internals/protocol-leases.md, "When a shard may be taken").
func (l *Leader) takeoverRule(now time.Duration, n *member, p shardmap.Epoch) string {
	sinceGrant := now - n.lastGrantAt
	switch {
	case n.heartbeat.Goodbye:
		return "goodbye"
	case l.awaitsCrashRestart(now, n):
		return ""
	case n.hasCompleteAck(p):
		return "acknowledged"
	case n.rebooted && !n.hadLease:
		return "new-boot"
	case n.removed:
		return "removed"
	case sinceGrant >= l.maxTiming.DeadAfter:
		return "silence"
	case !n.hasCrashed() || l.maxTiming.Takeover == ack.TakeoverTimeout:
		return ""
	case l.maxTiming.Takeover == ack.TakeoverImmediate:
		return "refusal"
	case sinceGrant > l.maxTiming.LeaseExpiry():
		return "evidence"
	}
	return ""
}
