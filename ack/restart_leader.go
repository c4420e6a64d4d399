package ack

import (
	"time"

	"shardway/shardmap"
)

// awaitMost bounds for how long a leader waits for what a node keeps: whoever joins waits, too.
const maxReleaseWait = time.Second

// away is what a leader counts of a node's absence.
type restartTimes struct {
	since     time.Duration // when the present one was first seen; before: the election
	endedAt   time.Duration // when the last one was seen to end
	goodbyeAt time.Duration // when the present boot said goodbye, as far as this leader knows
}

// absent reports whether the node is waited for: it is a member of what ought to be
// whatever is heard of it, unless an operator says that it is gone.
func (l *Leader) isRestarting(n *member) bool { return l.state.Restarting(n.id) && !n.removed }

// absences returns those who are absent.
func (l *Leader) restartingNodes() map[shardmap.NodeID]bool {
	var ids map[shardmap.NodeID]bool
	for id := range l.state.restarts {
		if l.isRestarting(l.member(id)) {
			setKey(&ids, id, true)
		}
	}
	return ids
}

// absence submits the begin or the end of one, and reports whether there was any, or is to
// be one: until then the map leaves the node what it has.
func (l *Leader) submitRestart(now time.Duration) bool {
	var next restartEntry
	awaited := false
	for id, n := range l.members {
		if l.awaitsReleases(now, n) && !l.clientsWait(now) {
			awaited = true
			continue
		}
		if c, ok := l.restartChange(now, n); ok && (next.node == "" || id < next.node) {
			next = c
		}
	}
	if next.node == "" {
		return awaited
	}
	l.submitting, l.submittingChange, l.submitted = true, true, now
	l.emit(Event{Kind: EventRestart, Node: next.node, Grace: next.grace})
	l.emit(Submit{Entry: encodeRestart(l.state.Level(), next)})
	return true
}

// parts reports that the log is to be told of a node's absence.
func (l *Leader) announcesRestart(n *member) bool {
	a, known := l.state.Restart(n.id)
	return n.heartbeat.Back > 0 && l.state.Committed().Has(n.id) && l.state.Last().Has(n.id) && (!known || a.Boot < n.heartbeat.Boot)
}

// awaits reports that what the node keeps for its next process is still on its way, because
// who had it at the goodbye leads no more. It is sent for deliverTime from when the node
// hears that, for which it has as long again.
func (l *Leader) awaitsReleases(now time.Duration, n *member) bool {
	return l.announcesRestart(n) && n.heartbeat.Released != [32]byte{} && !n.hasReleases() && now-n.restart.goodbyeAt < min(2*deliverTime(n.heartbeat.Release), maxReleaseWait)
}

// losing reports that clients wait for a map: for shards that are on their way, or of somebody
// who announced no return.
func (l *Leader) clientsWait(now time.Duration) bool {
	if l.state.Open() && len(shardmap.Diff(l.state.Committed(), l.state.Last())) > 0 {
		return true
	}
	for _, m := range l.state.Last().Members() {
		if n := l.member(m.ID); !l.announcesRestart(n) && !l.isRestarting(n) && !l.eligible(now, n) {
			return true
		}
	}
	return false
}

// absenting returns what the log is to be told of a node, and false if it is nothing.
func (l *Leader) restartChange(now time.Duration, n *member) (restartEntry, bool) {
	a, _ := l.state.Restart(n.id)
	switch {
	case l.announcesRestart(n):
		c := restartEntry{term: l.o.Term, node: n.id, boot: n.heartbeat.Boot, grace: n.heartbeat.Back}
		if n.hasReleases() && len(n.releases.Shards) > 0 {
			c.released, c.server, c.proposal = n.releases.Shards, n.releases.Server, n.releases.Proposal
		}
		return c, true
	case l.isRestarting(n) && (l.hasReturned(now, n, a) || now-n.restart.since >= a.Grace):
		return restartEntry{term: l.o.Term, node: n.id, boot: a.Boot}, true
	}
	return restartEntry{}, false
}

// returned reports that a later process of the node speaks for itself: it serves what
// it has, or says that it leaves.
func (l *Leader) hasReturned(now time.Duration, n *member, a Restart) bool {
	switch {
	case n.heartbeat.Boot <= a.Boot || n.silent(now, l.o.Pace):
		return false
	case n.heartbeat.Leaving, n.heartbeat.Goodbye:
		return true
	}
	return !n.heartbeat.Unhealthy && n.freshStreak >= requiredStreak && n.hadLease && now-n.lastGrant <= l.maxTiming.Lease
}

// absented looks at the absences of a newer state.
func (l *Leader) restartsApplied(now time.Duration, old *State) {
	if l.state.restartsIndex == old.restartsIndex {
		return
	}
	for _, s := range [...]*State{old, l.state} {
		for id := range s.restarts {
			n := l.member(id)
			switch was, is := old.restarts[id], l.state.restarts[id]; {
			case l.state.Restarting(id) && was != is:
				n.restart.since = now
			case old.Restarting(id) && !l.state.Restarting(id):
				n.restart.endedAt = now
			}
		}
	}
	if l.submittingChange {
		l.submitting, l.submittingChange = false, false
	}
}

// keeps reports that p gives the node exactly what base does.
func sameShards(base, p *shardmap.Map, node shardmap.NodeID) bool {
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
func (l *Leader) commitConfirmed(n *member, p *shardmap.Map) bool {
	return n.ackCounts(p.Epoch()) || l.isRestarting(n) && !l.state.ChangesKeys() && sameShards(l.state.Committed(), p, n.id)
}
