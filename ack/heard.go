package ack

import (
	"slices"
	"time"

	"shardway/shardmap"
)

// heard takes a heartbeat and answers it; false: not at all. That is what becomes of
// one that does not name exactly the own term (why 2).
func (l *Leader) heard(now time.Duration, m Heard) (Answer, bool) {
	if m.Term != l.o.Term || l.grants.revoked {
		return Answer{}, false
	}
	n := l.node(m.Node)
	if n.heard() && m.Boot < n.beat.Boot {
		return l.refuse(m, n.lower(m)), true
	}
	if a := l.elsewhere(now, n, m); a.Refusal != 0 {
		return l.refuse(m, a), true
	}
	if n.heard() && m.Boot == n.beat.Boot && m.Nonce != n.beat.Nonce {
		// What names this boot (old evidence, for one) would not tell the two
		// processes apart.
		return l.refuse(m, n.lower(m)), true
	}
	if m.Boot == n.beat.Boot && m.Number <= n.beat.Number {
		return Answer{}, false // repeated or overtaken
	}
	if m.Boot != n.beat.Boot {
		n.reset(now, m.Boot)
		n.stranger = m.Echo == Echo{}
	}
	if !n.heard() || n.beat.Zone != m.Zone || n.beat.Unable != m.Unable || !slices.Equal(n.beat.Unacquired, m.Unacquired) {
		l.zoned++
	}
	if m.Goodbye && (!n.beat.Goodbye || m.Boot != n.beat.Boot) {
		n.away.heard = now
	}
	n.beat, n.from, n.closed, n.lastHeard = m.Heartbeat, m.From, false, now
	n.evidence, n.unknownGone, n.removed = 0, false, false
	if m.Unhealthy {
		n.healthySince = -1
	} else if n.healthySince < 0 {
		n.healthySince = now
	}
	l.echoed(now, n)
	l.follows(now, n)
	return l.answer(now, n), true
}

// lower tells how to refuse a boot that is not above the one that was heard. On
// another disk, one that was emptied, it only has to be raised. The same disk
// counts its boots, so it has gone back or there are two of it.
func (n *member) lower(m Heard) Answer {
	if m.Server == n.beat.Server {
		return Answer{Refusal: RefusedRollback, Known: n.beat.Boot}
	}
	return Answer{Refusal: RefusedBoot, Known: max(n.beat.Boot, m.Boot+1)}
}

// elsewhere refuses a second process under a node's id (docs/internals/protocol.md) until
// the first one's connection is gone, or it has been silent for DeadAfter, and
// its lease has certainly run out; on another disk, until the first one certainly
// runs nothing either. A quick restart meets only the lease.
func (l *Leader) elsewhere(now time.Duration, n *member, m Heard) Answer {
	if !n.heard() || n.beat.Nonce == m.Nonce || n.beat.Goodbye {
		return Answer{}
	}
	if gone := n.closed || n.crashed() || now-n.lastHeard > l.t.DeadAfter; !gone {
		l.emit(Noted{Kind: NoteDuplicate, Node: n.id, Reason: n.from + " and " + m.From})
		return Answer{Refusal: RefusedDuplicate, Known: n.beat.Boot, Elsewhere: n.from}
	}
	if n.leased && now <= n.lastGrant+l.t.leaseEnd() || m.Server != n.beat.Server && !l.over(now, n) {
		return Answer{Refusal: RefusedDuplicate, Known: n.beat.Boot}
	}
	return Answer{}
}

// over reports that no process under the node's name admits or runs anything any
// more. A new process on the same disk shows that the one before has ended, for it
// holds the lock; one on another disk shows nothing, and it would run the same
// shards under the same epochs. So it waits as one does who takes them.
func (l *Leader) over(now time.Duration, n *member) bool {
	sinceGrant := now - n.lastGrant
	return n.beat.Goodbye || n.removed || sinceGrant >= l.t.DeadAfter ||
		n.crashed() && l.t.Fence != FenceStrict && sinceGrant > l.t.leaseEnd()
}

func (l *Leader) refuse(m Heard, a Answer) Answer {
	a.Level, a.Term, a.Boot, a.Beat, a.Epoch = m.Level, l.o.Term, m.Boot, m.Number, l.state.Last().Epoch()
	return a
}

// echoed takes the confirmation that the heartbeat brings, and judges the link.
func (l *Leader) echoed(now time.Duration, n *member) {
	fresh := false
	if n.beat.Echo.Term == l.o.Term {
		if at, ok := n.sentAt(n.beat.Echo.Number); ok {
			n.echoAt = max(n.echoAt, at)
			l.grants.confirm(n.beat.Server, at)
			fresh = now-at <= l.o.Pace.freshness()
		}
	}
	if !fresh {
		n.streak = 0
		return
	}
	n.streak++
	n.lastFresh = now
}

// follows notes since when the node's log has been behind (why 16).
func (l *Leader) follows(now time.Duration, n *member) {
	switch {
	case n.beat.Applied >= l.state.Committed().Epoch():
		n.behindSince = -1
	case n.behindSince < 0:
		n.behindSince = max(now, l.committed)
	}
}

// answer grants what may be granted. It must come after the acknowledgement of
// the heartbeat was taken.
func (l *Leader) answer(now time.Duration, n *member) Answer {
	l.answers++
	a := Answer{
		Level: n.beat.Level, Term: l.o.Term, Number: l.answers, Boot: n.beat.Boot, Beat: n.beat.Number,
		Epoch: l.state.Last().Epoch(), OK: n.beat.Acked == l.state.Last().Epoch(),
		MapStays: l.asksToLeave(n) && l.nobodyStays(now), Taken: n.handed(),
		Absences: l.state.absentAt,
	}
	if l.mayServe(now, n) {
		t := l.timing()
		if a.Serve = l.grants.grant(now, t); a.Serve > 0 {
			a.Cut, a.Lease = a.Serve+t.CutAfter(), t.Lease
		}
	}
	if a.Serve > 0 {
		n.leased, n.lastGrant = true, now
	}
	n.answerSent(now, l.answers)
	return a
}

// mayServe reports whether the node may have a lease at all. Each
// line is one of the conditions of docs/internals/protocol.md, "Leases and detection".
func (l *Leader) mayServe(now time.Duration, n *member) bool {
	if !l.barrier || n.beat.Goodbye || n.beat.Gateway {
		return false
	}
	// From the step that submits Commit(p) on, p must have been acknowledged.
	if need := max(l.state.Committed().Epoch(), l.committing); n.beat.Acked < need || need == 0 {
		return false
	}
	// A node left out gets nothing until it has acknowledged that: else its
	// shards could never be taken (why 14). One that an operator removed, too.
	if d, ok := l.state.Drop(n.id); ok && d.InForce && n.beat.Acked < d.Epoch || n.beat.Acked < n.denied {
		return false
	}
	// Who shows no answer at all may be a second process under this name, and the
	// first may still have a lease of the leader before.
	if n.stranger && now-l.elected <= l.t.leaseEnd() && l.inherited.Count(n.id) > 0 {
		return false
	}
	if n.echoAt < 0 || now-n.echoAt > l.t.DeadAfter/2 {
		return false
	}
	q, ok := l.grants.quorum()
	return ok && (n.leased || q > n.firstHeard)
}

// asksToLeave reports that a node is asked to own nothing: by its own process or by an operator.
func (l *Leader) asksToLeave(n *member) bool {
	return n.beat.Leaving || l.state.Policy().Leaves(n.id)
}

// nobodyStays reports that no member of the map that routes will own anything:
// then that map stays (rule 10) and a leaving node need not wait.
func (l *Leader) nobodyStays(now time.Duration) bool {
	for _, n := range l.nodes {
		if l.eligible(now, n) {
			return false
		}
	}
	for _, m := range l.state.Last().Members() {
		if l.eligible(now, l.node(m.ID)) {
			return false
		}
	}
	return true
}

// acked reports whether the node's present boot has acknowledged e or a later
// proposal. What it gives up shards with may be under way yet, see counts.
func (n *member) acked(e shardmap.Epoch) bool { return n.heard() && n.beat.Acked >= e }
