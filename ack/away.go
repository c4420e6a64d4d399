package ack

import (
	"time"

	"shardway/shardmap"
)

// awaitMost bounds for how long a leader waits for what a node keeps: whoever joins waits, too.
const awaitMost = time.Second

// away is what a leader counts of a node's absence.
type away struct {
	since time.Duration // when the present one was first seen; before: the election
	back  time.Duration // when the last one was seen to end
	heard time.Duration // when the present boot said goodbye, as far as this leader knows
}

// absent reports whether the node is waited for: it is a member of what ought to be
// whatever is heard of it, unless an operator says that it is gone.
func (l *Leader) absent(n *member) bool { return l.state.Absent(n.id) && !n.removed }

// absences returns those who are absent.
func (l *Leader) absences() map[shardmap.NodeID]bool {
	var ids map[shardmap.NodeID]bool
	for id := range l.state.absences {
		if l.absent(l.node(id)) {
			put(&ids, id, true)
		}
	}
	return ids
}

// absence submits the begin or the end of one, and reports whether there was any, or is to
// be one: until then the map leaves the node what it has.
func (l *Leader) absence(now time.Duration) bool {
	var next absenting
	awaited := false
	for id, n := range l.nodes {
		if l.awaits(now, n) && !l.losing(now) {
			awaited = true
			continue
		}
		if c, ok := l.absenting(now, n); ok && (next.node == "" || id < next.node) {
			next = c
		}
	}
	if next.node == "" {
		return awaited
	}
	l.submitting, l.amending, l.submitted = true, true, now
	l.emit(Noted{Kind: NoteAbsence, Node: next.node, Grace: next.grace})
	l.emit(Submit{Entry: encodeAbsenting(l.state.Level(), next)})
	return true
}

// parts reports that the log is to be told of a node's absence.
func (l *Leader) parts(n *member) bool {
	a, known := l.state.Absence(n.id)
	return n.beat.Back > 0 && l.state.Committed().Has(n.id) && l.state.Last().Has(n.id) && (!known || a.Boot < n.beat.Boot)
}

// awaits reports that what the node keeps for its next process is still on its way, because
// who had it at the goodbye leads no more. It is sent for deliverTime from when the node
// hears that, for which it has as long again.
func (l *Leader) awaits(now time.Duration, n *member) bool {
	return l.parts(n) && n.beat.Released != [32]byte{} && !n.handed() && now-n.away.heard < min(2*deliverTime(n.beat.Release), awaitMost)
}

// losing reports that clients wait for a map: for shards that are on their way, or of somebody
// who announced no return.
func (l *Leader) losing(now time.Duration) bool {
	if l.state.Open() && len(shardmap.Diff(l.state.Committed(), l.state.Last())) > 0 {
		return true
	}
	for _, m := range l.state.Last().Members() {
		if n := l.node(m.ID); !l.parts(n) && !l.absent(n) && !l.eligible(now, n) {
			return true
		}
	}
	return false
}

// absenting returns what the log is to be told of a node, and false if it is nothing.
func (l *Leader) absenting(now time.Duration, n *member) (absenting, bool) {
	a, _ := l.state.Absence(n.id)
	switch {
	case l.parts(n):
		c := absenting{term: l.o.Term, node: n.id, boot: n.beat.Boot, grace: n.beat.Back}
		if n.handed() && len(n.releases.Shards) > 0 {
			c.released, c.server, c.proposal = n.releases.Shards, n.releases.Server, n.releases.Proposal
		}
		return c, true
	case l.absent(n) && (l.returned(now, n, a) || now-n.away.since >= a.Grace):
		return absenting{term: l.o.Term, node: n.id, boot: a.Boot}, true
	}
	return absenting{}, false
}

// returned reports that a later process of the node speaks for itself: it serves what
// it has, or says that it leaves.
func (l *Leader) returned(now time.Duration, n *member, a Absence) bool {
	switch {
	case n.beat.Boot <= a.Boot || n.silent(now, l.o.Pace):
		return false
	case n.beat.Leaving, n.beat.Goodbye:
		return true
	}
	return !n.beat.Unhealthy && n.streak >= backStreak && n.leased && now-n.lastGrant <= l.t.Lease
}

// absented looks at the absences of a newer state.
func (l *Leader) absented(now time.Duration, old *State) {
	if l.state.absentAt == old.absentAt {
		return
	}
	for _, s := range [...]*State{old, l.state} {
		for id := range s.absences {
			n := l.node(id)
			switch was, is := old.absences[id], l.state.absences[id]; {
			case l.state.Absent(id) && was != is:
				n.away.since = now
			case old.Absent(id) && !l.state.Absent(id):
				n.away.back = now
			}
		}
	}
	if l.amending {
		l.submitting, l.amending = false, false
	}
}

// keeps reports that p gives the node exactly what base does.
func keeps(base, p *shardmap.Map, node shardmap.NodeID) bool {
	for s := range shardmap.Shard(base.Len()) {
		if (base.Owner(s) == node) != (p.Owner(s) == node) {
			return false
		}
	}
	return true
}

// confirmed reports whether what p gives the node needs no further word of it (G4).
// Who is absent has none to give, and p leaves it what it has. A change of the key
// configuration needs the word of every member: the next process of an absent one may serve
// already.
func (l *Leader) confirmed(n *member, p *shardmap.Map) bool {
	return n.counts(p.Epoch()) || l.absent(n) && !l.state.ChangesKeys() && keeps(l.state.Committed(), p, n.id)
}
