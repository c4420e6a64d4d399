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
	if l.grants.revoked || now < l.resumeAt {
		return
	}
	if !l.barrier {
		if now-l.elected > max(l.t.DeadAfter, barrierLeast) {
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
	if !l.state.Born() || !l.watch(now) || l.amend(now) || l.absence(now) || l.report(now) {
		return
	}
	l.unblock(now)
	a, reason := l.want(now)
	switch {
	case reason == "":
		l.wantSince = -1
		if l.mine() {
			l.tryCommit(now)
		}
	case l.wantSince < 0:
		l.wantSince = now
	}
	switch {
	case l.wantSince < 0 || a.want == nil:
	case now-l.wantSince >= l.gathering(a.final):
		if l.stageDue(now, a) {
			l.propose(now, a)
		}
	case l.mine() && l.adds(a.final):
		// A round goes on while others gather for the next.
		l.tryCommit(now)
	}
}

// want returns the map that ought to be, and why it must be proposed; no reason
// if the last map in the log is the one and a round of this term has it, or if that
// map differs from it only by moves that are deferred, and a round is open.
func (l *Leader) want(now time.Duration) (*assignment, string) {
	members := l.members(now)
	a := l.assign(members)
	l.stageLook(now, a)
	a = l.assign(members) // answers may count no more
	l.stage(now, a)
	last := l.state.Last()
	switch {
	case l.state.Committed().Epoch() == 0 && len(members) == 0:
		return &assignment{}, ""
	case l.state.Open() && !l.mine():
		return a, "found an open proposal"
	case !l.state.Open() && !l.settled:
		return a, newLeader
	case l.state.Open() && a.want.SameAs(last) && l.keysBlocked():
		return a, keysChange // the same map is proposed again, without the key configuration
	case !l.state.Open() && a.final.SameAs(last) && l.dueKeys(now) != "":
		return a, keysChange
	case !l.state.Open() && a.final.SameAs(last), l.state.Open() && a.want.SameAs(last):
		return &assignment{}, ""
	}
	return a, l.why(now, a.final)
}

// assignment remembers the last answer of assign: the question is asked at every
// step and changes seldom.
type assignment struct {
	members    []shardmap.Member
	base, last *shardmap.Map
	policy     *Policy
	absent     map[shardmap.NodeID]bool
	kept       map[shardmap.Shard]bool
	zoned      uint64
	looks      uint64
	// final is the map in the end, givers are the owners from which it takes shards.
	final  *shardmap.Map
	givers []shardmap.NodeID
	// want is final without the moves that are deferred, of the owners in staged.
	want   *shardmap.Map
	staged map[shardmap.NodeID]bool
	// urgent: want has something that waits for no answer of an owner.
	urgent bool
	apps   uint64
}

// assign returns the map for members; want and staged are the last ones. Without members
// the last map stays (rule 10), also if it is only proposed: the map that routes may name
// somebody whom it drops, who must not come back.
func (l *Leader) assign(members []shardmap.Member) *assignment {
	base, last, policy, absent := l.state.Committed(), l.state.Last(), l.state.Policy(), l.absences()
	if a := &l.memo; a.final != nil && a.base == base && a.last == last && a.policy == policy && maps.Equal(a.absent, absent) && maps.Equal(a.kept, l.keptNow) && a.zoned == l.zoned && a.looks == l.empties.looks && a.apps == l.state.appsAt && slices.Equal(a.members, members) {
		return a
	}
	final := last
	var from []shardmap.NodeID
	if len(members) > 0 {
		final = shardmap.Assign(base, members, l.rules(policy, absent, members))
		from = givers(base, final)
	}
	l.memo = assignment{
		members: slices.Clone(members), base: base, last: last, policy: policy, absent: absent, kept: l.keptNow, zoned: l.zoned, looks: l.empties.looks, apps: l.state.appsAt,
		final: final, givers: from,
	}
	return &l.memo
}

// stage fills in the map that may be proposed now.
func (l *Leader) stage(now time.Duration, a *assignment) {
	staged := l.staged(now, a.givers)
	if a.want != nil && maps.Equal(a.staged, staged) {
		return
	}
	a.want, a.staged = a.final, staged
	if len(staged) > 0 {
		p := l.rules(a.policy, a.absent, a.members)
		p.Staged = staged
		a.want = shardmap.Assign(a.base, a.members, p)
		a.urgent = l.urgent(a)
	}
}

// rules is what Assign goes by beside the members.
func (l *Leader) rules(policy *Policy, absent map[shardmap.NodeID]bool, members []shardmap.Member) shardmap.Policy {
	p := policy.assign(l.zones())
	p.Absent, p.Before = absent, l.state.previous
	p.Idle = l.empties.idle
	p.Barred = l.state.barred()
	l.relocate(&p, members)
	p.Kept = l.keptNow
	return p
}

// why names the first cause for want, in the words of metrics.
func (l *Leader) why(now time.Duration, want *shardmap.Map) string {
	last := l.state.Last()
	for _, m := range last.Members() {
		if !want.Has(m.ID) {
			return l.lost(now, l.node(m.ID))
		}
	}
	for _, m := range want.Members() {
		if !last.Has(m.ID) {
			return "join"
		}
	}
	for _, m := range want.Members() {
		if l.state.Policy().empties(m.ID) && want.Count(m.ID) < last.Count(m.ID) {
			return "drain"
		}
	}
	if reason := l.stageReason(); reason != "" {
		return reason // a later map of the same change
	}
	if slices.Equal(want.Members(), last.Members()) {
		return "policy" // a pin, a cordon or the end of a pause
	}
	return "weight"
}

// lost names the cause for which a node must not be a member, in the words of metrics.
func (l *Leader) lost(now time.Duration, n *member) string {
	switch {
	case l.failing(now, n) != 0:
		return l.failing(now, n).String()
	case n.crashed():
		return CauseCrashed.String()
	case n.beat.Leaving || n.beat.Goodbye:
		return "leave"
	case l.leavesForHealth(n):
		return "app-unhealthy"
	case l.state.Policy().Drained[n.id]:
		return "drain"
	}
	return CauseSilent.String()
}

// because returns the reason of a proposal, the same one for the log, events and metrics. A
// leader that proposes again what another leader has proposed keeps the reason of that one.
// The first round of a leader that changes nothing has the reason "new leader".
func (l *Leader) because(now time.Duration, a *assignment) string {
	switch same := a.want.SameAs(l.state.Last()); {
	case same && l.state.Open():
		return l.state.Reason()
	case same && l.settled && l.dueKeys(now) != "":
		return keysChange
	case same:
		return newLeader
	}
	return l.why(now, a.final)
}

// newLeader is the reason of a round that changes nothing: it confirms every node towards a
// leader that has just been elected (rule 4).
const newLeader = "new leader"

// keysChange is the reason of a round that makes another key configuration active and moves
// no shard.
const keysChange = "keys"

// members returns the nodes that the map ought to have, ordered by id: those who may
// own what they are given, and beside them those who are absent.
func (l *Leader) members(now time.Duration) []shardmap.Member {
	last := l.state.Last()
	for _, m := range last.Members() {
		l.node(m.ID)
	}
	ms, anybody := l.eligibleNow[:0], false
	for id, n := range l.nodes {
		absent := l.absent(n)
		if !absent && !l.eligible(now, n) {
			continue
		}
		anybody = anybody || !absent && !l.state.Policy().empties(id)
		m := shardmap.Member{ID: id, Weight: n.beat.Weight}
		if absent || !n.heard() {
			was, _ := memberOf(last, id)
			m.Weight = was.Weight
		}
		ms = append(ms, m)
	}
	if !anybody {
		ms = ms[:0]
	}
	slices.SortFunc(ms, func(a, b shardmap.Member) int { return cmp.Compare(a.ID, b.ID) })
	l.eligibleNow, l.keptNow = ms, l.kept(now)
	return ms
}

// eligible reports whether the node may be in the next map.
func (l *Leader) eligible(now time.Duration, n *member) bool {
	return l.eligibleBut(now, n) && (l.apps.nobody || !l.heldBack(now, n))
}

// eligibleBut is eligible, but for how often its app became unhealthy.
func (l *Leader) eligibleBut(now time.Duration, n *member) bool {
	if n.removed || l.leavesForHealth(n) || n.beat.Leaving || n.beat.Goodbye || n.beat.Gateway || n.crashed() || l.failing(now, n) != 0 {
		return false
	}
	if l.state.Policy().Drained[n.id] {
		return false
	}
	d, _ := l.state.Drop(n.id)
	switch {
	case d.InForce && d.Cause.slow():
		// Rule 3: it must have acknowledged the proposal that dropped it, and bear
		// the pause of those who miss again and again.
		since, ok := l.droppedAt[n.id]
		if !ok {
			since = l.elected
		}
		return n.acked(d.Epoch) && n.acked(l.state.Committed().Epoch()) && !n.silent(now, l.o.Pace) && now-since >= damping(d.Strikes)
	case d.InForce || !l.state.Last().Has(n.id):
		return n.streak >= backStreak && l.couldServe(now, n) && !n.silent(now, l.o.Pace) && n.acked(l.state.Committed().Epoch())
	case !n.heard():
		// An election by itself moves nothing (rule 4, why 18).
		return now-l.elected < l.t.DeadAfter
	}
	return !n.silent(now, l.o.Pace)
}

// couldServe reports that a node would serve what it were given: it has a lease.
// The first one of a boot takes a heartbeat or two longer than what else makes a
// node eligible. Who is still in the map that routes owns its shards already, and
// before the first map there are no leases.
func (l *Leader) couldServe(now time.Duration, n *member) bool {
	c := l.state.Committed()
	return n.leased && now-n.lastGrant <= l.t.Lease || c.Has(n.id) || c.Epoch() == 0
}

// failing tells why a member of the last map must be dropped although it is
// heard; zero if it need not.
func (l *Leader) failing(now time.Duration, n *member) Cause {
	last := l.state.Last()
	switch {
	case !last.Has(n.id):
		return 0
	case n.removed:
		return CauseRemoved
	case l.absent(n) || !n.heard() || n.silent(now, l.o.Pace) || n.crashed():
		return 0
	case l.mine() && now-max(l.began, n.away.back) > l.ackDeadline(n) && !n.counts(last.Epoch()):
		return CauseMissedAck
	case n.behindSince >= 0 && now-max(n.behindSince, n.away.back) > l.o.Pace.AckDeadline():
		return CauseBehind
	}
	return 0
}

// watch notes who has gone silent or missed the deadline for acknowledgements.
// It returns false if nobody acknowledged: then the fault is more likely here.
func (l *Leader) watch(now time.Duration) bool {
	last := l.state.Last()
	acked, missed := 0, 0
	for _, m := range last.Members() {
		n := l.node(m.ID)
		if silent := n.heard() && n.silent(now, l.o.Pace) && !l.absent(n); silent != n.wasSilent {
			n.wasSilent = silent
			kind := NoteBack
			if silent {
				kind = NoteSilent
			}
			l.emit(Noted{Kind: kind, Node: n.id})
		}
		switch {
		case n.counts(last.Epoch()):
			acked++
		case l.failing(now, n) == CauseMissedAck:
			missed++
		}
	}
	if acked == 0 && missed > 0 {
		l.stepDown(now, "nobody acknowledged")
		return false
	}
	l.denyLate(now)
	return true
}

// denyLate ends the leases of owners that the open proposal leaves out for
// another reason than a drop (they leave, or their app is sick) and that do not
// acknowledge it either: else the round would wait for them for ever (why 14).
func (l *Leader) denyLate(now time.Duration) {
	if !l.mine() {
		return
	}
	last := l.state.Last()
	for _, m := range l.state.Committed().Members() {
		if n := l.node(m.ID); now-l.began > l.ackDeadline(n) && !last.Has(m.ID) && !n.counts(last.Epoch()) {
			n.denied = last.Epoch()
		}
	}
}

// ackDeadline is how long n may take to acknowledge a proposal: an app that releases
// what it holds gets the time that its node says it needs.
func (l *Leader) ackDeadline(n *member) time.Duration { return l.o.Pace.AckDeadline() + n.beat.Release }

// propose submits a proposal of a.want, computed from the committed map, with a
// record of everybody who is dropped and why.
func (l *Leader) propose(now time.Duration, a *assignment) {
	want := a.want
	p := proposal{term: l.o.Term, base: l.state.Committed().Epoch(), reason: l.because(now, a), want: want}
	if !l.state.Open() || l.state.ChangesKeys() {
		p.keys = l.dueKeys(now)
	}
	for id, cause := range l.leftOut(now, want) {
		p.drops = append(p.drops, dropping{node: id, cause: cause, strikes: l.strikes(now, id, cause)})
	}
	slices.SortFunc(p.drops, func(a, b dropping) int { return cmp.Compare(a.node, b.node) })
	entry, err := encodeProposal(l.state.Level(), p)
	if err != nil {
		// Assign makes no map that cannot be encoded.
		panic(err)
	}
	l.wantSince, l.submitting, l.submitted = -1, true, now
	l.emit(Noted{
		Kind: NoteProposing, Epoch: p.base, Moved: len(shardmap.Diff(l.state.Committed(), want)), Reason: p.reason,
		Joined: beyond(want, l.state.Committed()), Left: beyond(l.state.Committed(), want),
		Deferred: slices.Sorted(maps.Keys(a.staged)), Busy: len(shardmap.Diff(want, a.final)),
	})
	l.stageProposed(now, want)
	for _, d := range p.drops {
		l.emit(Noted{Kind: NoteDropped, Node: d.node, Cause: d.cause})
	}
	l.emit(Submit{Entry: entry})
}

// beyond returns the members of a map that another one does not have.
func beyond(m, other *shardmap.Map) (nodes []shardmap.NodeID) {
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
func (l *Leader) leftOut(now time.Duration, want *shardmap.Map) map[shardmap.NodeID]Cause {
	out := map[shardmap.NodeID]Cause{}
	for _, m := range slices.Concat(l.state.Committed().Members(), l.state.Last().Members()) {
		n := l.node(m.ID)
		if want.Has(m.ID) {
			continue
		}
		d, _ := l.state.Drop(m.ID)
		switch {
		case l.failing(now, n) != 0:
			out[m.ID] = l.failing(now, n)
		case d.InForce:
			// Dropped already, and the cause has not changed: keep the record, for
			// its epoch is what the node has to acknowledge.
		case n.crashed():
			out[m.ID] = CauseCrashed
		case n.heard() && n.silent(now, l.o.Pace), now-l.elected >= l.t.DeadAfter && !n.heard():
			// One that is drained is left out before it is known whether it is silent.
			out[m.ID] = CauseSilent
		}
	}
	return out
}

// strikes counts missed acknowledgements within dampWindow of one another. A new
// leader does not know when the last one was and counts it from its election.
func (l *Leader) strikes(now time.Duration, id shardmap.NodeID, c Cause) uint32 {
	d, ok := l.state.Drop(id)
	if !c.slow() {
		return d.Strikes
	}
	since, known := l.droppedAt[id]
	if !known {
		since = l.elected
	}
	if !ok || now-since > dampWindow {
		return 1
	}
	return d.Strikes + 1
}

// tryCommit submits the commit of the open proposal once every member has
// acknowledged it and no owner that it leaves out may still serve (G4, rule 5).
func (l *Leader) tryCommit(now time.Duration) {
	p := l.state.Last()
	for _, m := range p.Members() {
		if !l.confirmed(l.node(m.ID), p) {
			return
		}
	}
	base := l.state.Committed()
	var taken []Noted
	for _, m := range base.Members() {
		if p.Has(m.ID) || base.Count(m.ID) == 0 {
			continue
		}
		how := l.takeable(now, l.node(m.ID), p.Epoch())
		if how == "" {
			return
		}
		taken = append(taken, Noted{Kind: NoteTaken, Node: m.ID, Epoch: p.Epoch(), Reason: how})
	}
	for _, n := range taken {
		l.emit(n)
	}
	// From this step on a lease needs an acknowledgement of p.
	l.committing, l.submitting, l.submitted = p.Epoch(), true, now
	l.emit(Noted{Kind: NoteCommitting, Epoch: p.Epoch()})
	c := commit{epoch: p.Epoch(), digest: p.Digest()}
	c.released, c.servers = l.handsOver(base, p)
	l.emit(Submit{Entry: encodeCommit(l.state.Level(), c), Commit: true})
}

// awaited reports that RestartGrace asks to wait for the return of a node that
// crashed, or for one that has just returned to become eligible.
func (l *Leader) awaited(now time.Duration, n *member) bool {
	if n.removed || n.beat.Leaving || n.beat.Unhealthy {
		return false
	}
	return n.crashed() && now-n.evidenceAt < l.o.Pace.RestartGrace ||
		n.rebooted && now-n.firstHeard < l.o.Pace.RestartGrace
}

// takeable tells by which rule the shards of a node that p leaves out may be
// taken, or "" if they may not be yet (docs/internals/protocol.md, "When a shard
// may be taken").
func (l *Leader) takeable(now time.Duration, n *member, p shardmap.Epoch) string {
	sinceGrant := now - n.lastGrant
	switch {
	case n.beat.Goodbye:
		return "goodbye"
	case l.awaited(now, n):
		return ""
	case n.counts(p):
		return "acknowledged"
	case n.rebooted && !n.leased:
		return "new-boot"
	case n.removed:
		return "removed"
	case sinceGrant >= l.t.DeadAfter:
		return "silence"
	case !n.crashed() || l.t.Fence == FenceStrict:
		return ""
	case l.t.Fence == FenceRefused:
		return "refusal"
	case sinceGrant > l.t.leaseEnd():
		return "evidence"
	}
	return ""
}
