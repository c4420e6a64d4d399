package ack

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"shardway/shardmap"
)

// reconcile looks at the present state alone and moves the round on: whatever
// the last message was, it is only a hint that something may have changed.
func (l *Leader) reconcile(now time.Duration) {
	if l.leases.revoked || now < l.resumeAt {
		return
	}
	if !l.barrierApplied {
		if now-l.elected > max(l.maxTiming.DeadAfter, minBarrierTime) {
			l.stepDown(now, "barrier not applied within dead-after")
		}
		return
	}
	// One entry at a time (rule 1): what is on its way decides what comes next.
	if l.submitting {
		if now-l.submitted > l.o.Pace.AckDeadline() {
			l.stepDown(now, "entry neither applied nor refused")
		}
		return
	}
	if !l.state.Bootstrapped() || !l.checkMembers(now) || l.submitPolicyChange(now) || l.submitRestart(now) || l.submitAppReports(now) {
		return
	}
	l.unblockRound(now)
	a, reason := l.neededMap(now)
	switch {
	case reason == "":
		l.changeWantedSince = -1
		if l.ownRoundOpen() {
			l.tryCommit(now)
		}
	case l.changeWantedSince < 0:
		l.changeWantedSince = now
	}
	switch {
	case l.changeWantedSince < 0 || a.want == nil:
	case now-l.changeWantedSince >= l.batchDelay(a.final):
		if l.mayProposeStage(now, a) {
			l.propose(now, a)
		}
	case l.ownRoundOpen() && l.onlyAddsNodes(a.final):
		// A round goes on while others gather for the next.
		l.tryCommit(now)
	}
}

// want returns the map that ought to be, and why it must be proposed; no reason
// if the last map in the log is the one and a round of this term has it, or if that
// map differs from it only by moves that are deferred, and a round is open.
func (l *Leader) neededMap(now time.Duration) (*assignment, string) {
	members := l.eligibleMembers(now)
	a := l.assign(members)
	l.updateStages(now, a)
	a = l.assign(members) // answers may count no more
	l.planStage(now, a)
	last := l.state.Last()
	switch {
	case l.state.Committed().Epoch() == 0 && len(members) == 0:
		return &assignment{}, ""
	case l.state.Open() && !l.ownRoundOpen():
		return a, "found an open proposal"
	case !l.state.Open() && !l.roundDone:
		return a, reasonNewLeader
	case l.state.Open() && a.want.SameAs(last) && l.keysBlocked():
		return a, reasonKeys // the same map is proposed again, without the key configuration
	case !l.state.Open() && a.final.SameAs(last) && l.keysToActivate(now) != "":
		return a, reasonKeys
	case !l.state.Open() && a.final.SameAs(last), l.state.Open() && a.want.SameAs(last):
		return &assignment{}, ""
	}
	return a, l.changeReason(now, a.final)
}

// assignment remembers the last answer of assign: the question is asked at every
// step and changes seldom.
type assignment struct {
	members       []shardmap.Member
	base, last    *shardmap.Map
	policy        *Policy
	restarting    map[shardmap.NodeID]bool
	keptShards    map[shardmap.Shard]bool
	inputsVersion uint64
	idleVersion   uint64
	// final is the map in the end, givers are the owners from which it takes shards.
	final  *shardmap.Map
	losing []shardmap.NodeID
	// want is final without the moves that are deferred, of the owners in staged.
	want   *shardmap.Map
	staged map[shardmap.NodeID]bool
	// urgent: want has something that waits for no answer of an owner.
	cannotWait bool
	appsIndex  uint64
}

// assign returns the map for members; want and staged are the last ones. Without members
// the last map stays (rule 10), also if it is only proposed: the map that routes may name
// somebody whom it drops, who must not come back.
func (l *Leader) assign(members []shardmap.Member) *assignment {
	base, last, policy, absent := l.state.Committed(), l.state.Last(), l.state.Policy(), l.restartingNodes()
	if a := &l.lastAssignment; a.final != nil && a.base == base && a.last == last && a.policy == policy && maps.Equal(a.restarting, absent) && maps.Equal(a.keptShards, l.keptShards) && a.inputsVersion == l.inputsVersion && a.idleVersion == l.gradual.version && a.appsIndex == l.state.departuresIndex && slices.Equal(a.members, members) {
		return a
	}
	final := last
	var from []shardmap.NodeID
	if len(members) > 0 {
		final = shardmap.Assign(base, members, l.assignPolicy(policy, absent, members))
		from = ownersLosingShards(base, final)
	}
	l.lastAssignment = assignment{
		members: slices.Clone(members), base: base, last: last, policy: policy, restarting: absent, keptShards: l.keptShards, inputsVersion: l.inputsVersion, idleVersion: l.gradual.version, appsIndex: l.state.departuresIndex,
		final: final, losing: from,
	}
	return &l.lastAssignment
}

// stage fills in the map that may be proposed now.
func (l *Leader) planStage(now time.Duration, a *assignment) {
	staged := l.deferringOwners(now, a.losing)
	if a.want != nil && maps.Equal(a.staged, staged) {
		return
	}
	a.want, a.staged = a.final, staged
	if len(staged) > 0 {
		p := l.assignPolicy(a.policy, a.restarting, a.members)
		p.Staged = staged
		a.want = shardmap.Assign(a.base, a.members, p)
		a.cannotWait = l.cannotWait(a)
	}
}

// rules is what Assign goes by beside the members.
func (l *Leader) assignPolicy(policy *Policy, absent map[shardmap.NodeID]bool, members []shardmap.Member) shardmap.Policy {
	p := policy.assign(l.zones())
	p.Absent, p.Before = absent, l.state.previous
	p.Idle = l.gradual.idle
	p.Barred = l.state.allBarred()
	l.avoidFailingApps(&p, members)
	p.Kept = l.keptShards
	return p
}

// why names the first cause for want, in the words of metrics.
func (l *Leader) changeReason(now time.Duration, want *shardmap.Map) string {
	last := l.state.Last()
	for _, m := range last.Members() {
		if !want.Has(m.ID) {
			return l.exclusionReason(now, l.member(m.ID))
		}
	}
	for _, m := range want.Members() {
		if !last.Has(m.ID) {
			return "join"
		}
	}
	for _, m := range want.Members() {
		if l.state.Policy().drainsGradually(m.ID) && want.Count(m.ID) < last.Count(m.ID) {
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

// lost names the cause for which a node must not be a member, in the words of metrics.
func (l *Leader) exclusionReason(now time.Duration, n *member) string {
	switch {
	case l.exclusionCause(now, n) != 0:
		return l.exclusionCause(now, n).String()
	case n.crashed():
		return CauseCrashed.String()
	case n.heartbeat.Leaving || n.heartbeat.Goodbye:
		return "leave"
	case l.excludedForHealth(n):
		return "app-unhealthy"
	case l.state.Policy().Drained[n.id]:
		return "drain"
	}
	return CauseSilent.String()
}

// because returns the reason of a proposal, the same one for the log, events and metrics. A
// leader that proposes again what another leader has proposed keeps the reason of that one.
// The first round of a leader that changes nothing has the reason "new leader".
func (l *Leader) proposalReason(now time.Duration, a *assignment) string {
	switch same := a.want.SameAs(l.state.Last()); {
	case same && l.state.Open():
		return l.state.Reason()
	case same && l.roundDone && l.keysToActivate(now) != "":
		return reasonKeys
	case same:
		return reasonNewLeader
	}
	return l.changeReason(now, a.final)
}

// newLeader is the reason of a round that changes nothing: it confirms every node towards a
// leader that has just been elected (rule 4).
const reasonNewLeader = "new leader"

// keysChange is the reason of a round that makes another key configuration active and moves
// no shard.
const reasonKeys = "keys"

// members returns the nodes that the map ought to have, ordered by id: those who may
// own what they are given, and beside them those who are absent.
func (l *Leader) eligibleMembers(now time.Duration) []shardmap.Member {
	last := l.state.Last()
	for _, m := range last.Members() {
		l.member(m.ID)
	}
	ms, anybody := l.membersBuf[:0], false
	for id, n := range l.members {
		absent := l.isRestarting(n)
		if !absent && !l.eligible(now, n) {
			continue
		}
		anybody = anybody || !absent && !l.state.Policy().drainsGradually(id)
		m := shardmap.Member{ID: id, Weight: n.heartbeat.Weight}
		if absent || !n.heard() {
			was, _ := findMember(last, id)
			m.Weight = was.Weight
		}
		ms = append(ms, m)
	}
	if !anybody {
		ms = ms[:0]
	}
	slices.SortFunc(ms, func(a, b shardmap.Member) int { return cmp.Compare(a.ID, b.ID) })
	l.membersBuf, l.keptShards = ms, l.findKeptShards(now)
	return ms
}

// eligible reports whether the node may be in the next map.
func (l *Leader) eligible(now time.Duration, n *member) bool {
	return l.eligibleIgnoringFlaps(now, n) && (l.appsHealth.onlyHeldBack || !l.isHeldBack(now, n))
}

// eligibleBut is eligible, but for how often its app became unhealthy.
func (l *Leader) eligibleIgnoringFlaps(now time.Duration, n *member) bool {
	if n.removed || l.excludedForHealth(n) || n.heartbeat.Leaving || n.heartbeat.Goodbye || n.heartbeat.Gateway || n.crashed() || l.exclusionCause(now, n) != 0 {
		return false
	}
	if l.state.Policy().Drained[n.id] {
		return false
	}
	d, _ := l.state.Drop(n.id)
	switch {
	case d.InForce && d.Cause.missedRound():
		// Rule 3: it must have acknowledged the proposal that dropped it, and bear
		// the pause of those who miss again and again.
		since, ok := l.droppedAt[n.id]
		if !ok {
			since = l.elected
		}
		return n.hasAcked(d.Epoch) && n.hasAcked(l.state.Committed().Epoch()) && !n.silent(now, l.o.Pace) && now-since >= flapPause(d.Strikes)
	case d.InForce || !l.state.Last().Has(n.id):
		return n.freshStreak >= requiredStreak && l.canServe(now, n) && !n.silent(now, l.o.Pace) && n.hasAcked(l.state.Committed().Epoch())
	case !n.heard():
		// An election by itself moves nothing (rule 4, why 18).
		return now-l.elected < l.maxTiming.DeadAfter
	}
	return !n.silent(now, l.o.Pace)
}

// couldServe reports that a node would serve what it were given: it has a lease.
// The first one of a boot takes a heartbeat or two longer than what else makes a
// node eligible. Who is still in the map that routes owns its shards already, and
// before the first map there are no leases.
func (l *Leader) canServe(now time.Duration, n *member) bool {
	c := l.state.Committed()
	return n.hadLease && now-n.lastGrant <= l.maxTiming.Lease || c.Has(n.id) || c.Epoch() == 0
}

// failing tells why a member of the last map must be dropped although it is
// heard; zero if it need not.
func (l *Leader) exclusionCause(now time.Duration, n *member) Cause {
	last := l.state.Last()
	switch {
	case !last.Has(n.id):
		return 0
	case n.removed:
		return CauseRemoved
	case l.isRestarting(n) || !n.heard() || n.silent(now, l.o.Pace) || n.crashed():
		return 0
	case l.ownRoundOpen() && now-max(l.roundBegan, n.restart.endedAt) > l.ackDeadline(n) && !n.ackCounts(last.Epoch()):
		return CauseMissedAck
	case n.behindSince >= 0 && now-max(n.behindSince, n.restart.endedAt) > l.o.Pace.AckDeadline():
		return CauseBehind
	}
	return 0
}

// watch notes who has gone silent or missed the deadline for acknowledgements.
// It returns false if nobody acknowledged: then the fault is more likely here.
func (l *Leader) checkMembers(now time.Duration) bool {
	last := l.state.Last()
	acked, missed := 0, 0
	for _, m := range last.Members() {
		n := l.member(m.ID)
		if silent := n.heard() && n.silent(now, l.o.Pace) && !l.isRestarting(n); silent != n.wasSilent {
			n.wasSilent = silent
			kind := EventBack
			if silent {
				kind = EventSilent
			}
			l.emit(Event{Kind: kind, Node: n.id})
		}
		switch {
		case n.ackCounts(last.Epoch()):
			acked++
		case l.exclusionCause(now, n) == CauseMissedAck:
			missed++
		}
	}
	if acked == 0 && missed > 0 {
		l.stepDown(now, "nobody acknowledged")
		return false
	}
	l.denyLateLeases(now)
	return true
}

// denyLate ends the leases of owners that the open proposal leaves out for
// another reason than a drop (they leave, or their app is sick) and that do not
// acknowledge it either: else the round would wait for them for ever (why 14).
func (l *Leader) denyLateLeases(now time.Duration) {
	if !l.ownRoundOpen() {
		return
	}
	last := l.state.Last()
	for _, m := range l.state.Committed().Members() {
		if n := l.member(m.ID); now-l.roundBegan > l.ackDeadline(n) && !last.Has(m.ID) && !n.ackCounts(last.Epoch()) {
			n.leaseDeniedUntil = last.Epoch()
		}
	}
}

// ackDeadline is how long n may take to acknowledge a proposal: an app that releases
// what it holds gets the time that its node says it needs.
func (l *Leader) ackDeadline(n *member) time.Duration {
	return l.o.Pace.AckDeadline() + n.heartbeat.Release
}

// propose submits a proposal of a.want, computed from the committed map, with a
// record of everybody who is dropped and why.
func (l *Leader) propose(now time.Duration, a *assignment) {
	want := a.want
	p := proposal{term: l.o.Term, base: l.state.Committed().Epoch(), reason: l.proposalReason(now, a), want: want}
	if !l.state.Open() || l.state.ChangesKeys() {
		p.keys = l.keysToActivate(now)
	}
	for id, cause := range l.exclusions(now, want) {
		p.drops = append(p.drops, dropRecord{node: id, cause: cause, strikes: l.countMissedAcks(now, id, cause)})
	}
	slices.SortFunc(p.drops, func(a, b dropRecord) int { return cmp.Compare(a.node, b.node) })
	entry, err := encodeProposal(l.state.Level(), p)
	if err != nil {
		// Assign makes no map that cannot be encoded.
		panic(err)
	}
	l.changeWantedSince, l.submitting, l.submitted = -1, true, now
	l.emit(Event{
		Kind: EventProposing, Epoch: p.base, Moved: len(shardmap.Diff(l.state.Committed(), want)), Reason: p.reason,
		Joined: membersMissingFrom(want, l.state.Committed()), Left: membersMissingFrom(l.state.Committed(), want),
		Deferred: slices.Sorted(maps.Keys(a.staged)), Busy: len(shardmap.Diff(want, a.final)),
	})
	l.countStage(now, want)
	for _, d := range p.drops {
		l.emit(Event{Kind: EventDropped, Node: d.node, Cause: d.cause})
	}
	l.emit(Submit{Entry: entry})
}

// beyond returns the members of a map that another one does not have.
func membersMissingFrom(m, other *shardmap.Map) (nodes []shardmap.NodeID) {
	for _, x := range m.Members() {
		if !other.Has(x.ID) {
			nodes = append(nodes, x.ID)
		}
	}
	return nodes
}

// leftOut returns whom want drops, with the cause: members of the map that
// routes or of the last proposal that neither leave, nor have a sick app, nor are
// drained.
func (l *Leader) exclusions(now time.Duration, want *shardmap.Map) map[shardmap.NodeID]Cause {
	out := map[shardmap.NodeID]Cause{}
	for _, m := range slices.Concat(l.state.Committed().Members(), l.state.Last().Members()) {
		n := l.member(m.ID)
		if want.Has(m.ID) {
			continue
		}
		d, _ := l.state.Drop(m.ID)
		switch {
		case l.exclusionCause(now, n) != 0:
			out[m.ID] = l.exclusionCause(now, n)
		case d.InForce:
			// Dropped already, and the cause has not changed: keep the record, for
			// its epoch is what the node has to acknowledge.
		case n.crashed():
			out[m.ID] = CauseCrashed
		case n.heard() && n.silent(now, l.o.Pace), now-l.elected >= l.maxTiming.DeadAfter && !n.heard():
			// One that is drained is left out before it is known whether it is silent.
			out[m.ID] = CauseSilent
		}
	}
	return out
}

// strikes counts missed acknowledgements within flapWindow of one another. A new
// leader does not know when the last one was and counts it from its election.
func (l *Leader) countMissedAcks(now time.Duration, id shardmap.NodeID, c Cause) uint32 {
	d, ok := l.state.Drop(id)
	if !c.missedRound() {
		return d.Strikes
	}
	since, known := l.droppedAt[id]
	if !known {
		since = l.elected
	}
	if !ok || now-since > flapWindow {
		return 1
	}
	return d.Strikes + 1
}

// tryCommit submits the commit of the open proposal once every member has
// acknowledged it and no owner that it leaves out may still serve (G4, rule 5).
func (l *Leader) tryCommit(now time.Duration) {
	p := l.state.Last()
	for _, m := range p.Members() {
		if !l.commitConfirmed(l.member(m.ID), p) {
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
	// From this step on a lease needs an acknowledgement of p.
	l.committing, l.submitting, l.submitted = p.Epoch(), true, now
	l.emit(Event{Kind: EventCommitting, Epoch: p.Epoch()})
	c := commit{epoch: p.Epoch(), digest: p.Digest()}
	c.released, c.servers = l.releasesToCommit(base, p)
	l.emit(Submit{Entry: encodeCommit(l.state.Level(), c), Commit: true})
}

// awaited reports that RestartGrace asks to wait for the return of a node that
// crashed, or for one that has just returned to become eligible.
func (l *Leader) awaitsCrashRestart(now time.Duration, n *member) bool {
	if n.removed || n.heartbeat.Leaving || n.heartbeat.Unhealthy {
		return false
	}
	return n.crashed() && now-n.crashSeenAt < l.o.Pace.RestartGrace ||
		n.rebooted && now-n.firstHeard < l.o.Pace.RestartGrace
}

// takeable tells by which rule the shards of a node that p leaves out may be
// taken, or "" if they may not be yet (docs/internals/protocol.md, "When a shard
// may be taken").
func (l *Leader) takeoverRule(now time.Duration, n *member, p shardmap.Epoch) string {
	sinceGrant := now - n.lastGrant
	switch {
	case n.heartbeat.Goodbye:
		return "goodbye"
	case l.awaitsCrashRestart(now, n):
		return ""
	case n.ackCounts(p):
		return "acknowledged"
	case n.rebooted && !n.hadLease:
		return "new-boot"
	case n.removed:
		return "removed"
	case sinceGrant >= l.maxTiming.DeadAfter:
		return "silence"
	case !n.crashed() || l.maxTiming.Fence == FenceStrict:
		return ""
	case l.maxTiming.Fence == FenceRefused:
		return "refusal"
	case sinceGrant > l.maxTiming.leaseEnd():
		return "evidence"
	}
	return ""
}
