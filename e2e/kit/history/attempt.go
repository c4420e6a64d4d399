package history

// attempts judges what was tried without an answer. A balancer goes on with the
// next node if nobody listens, or if a connection that it had kept is closed before
// a byte of the answer: clients do not see that, so it must be rare, and have a
// reason each time. Nobody listens at a node from when its process was asked to end,
// or died, until Rules.Boot after it was started again; a kept connection is closed
// under a request only by a process that died meanwhile. One that is asked to end
// answers first, but for long polls.
func (j *judge) attempts(a *Answer) {
	r := j.report
	if len(a.Attempts) > 1 {
		r.Reattempts++
	}
	for i := range a.Attempts {
		t := &a.Attempts[i]
		if i == len(a.Attempts)-1 && a.Status != 0 {
			return
		}
		node := j.rules.node(t.Target)
		switch {
		case t.Refused && j.absent(node, t):
			r.Refused++
		case t.Refused:
			r.add(Unlistened, "%s %s, key %q: nobody listened at %s, which had not ended", a.Method, a.ID, a.Key, node)
		case t.Reused && j.died(node, t):
			r.Broken++
		case t.Reused && j.longPoll(a, t) && j.absent(node, t):
			r.Broken++
		case t.Reused && i < len(a.Attempts)-1:
			r.add(Dropped, "%s %s, key %q: %s closed a kept connection under it, and had not died: %s", a.Method, a.ID, a.Key, node, t.Err)
		}
	}
}

// longPoll tells whether a safe request had waited DrainTimeout for its response: then a node
// that is asked to end closes the connection, and the client asks another node.
func (j *judge) longPoll(a *Answer, t *Attempt) bool {
	safe := a.Method == "GET" || a.Method == "HEAD" || a.Method == "OPTIONS"
	return safe && t.Done-t.Sent >= j.rules.least(j.rules.DrainTimeout)
}

// absent tells whether no process of the node may have listened.
func (j *judge) absent(node string, t *Attempt) bool {
	for i := range j.h.Faults {
		f := &j.h.Faults[i]
		if f.Node == node && (f.By != 0 && f.Kind != NoApp || f.Kind == Left) && f.From <= t.Done && t.Sent <= after(f.until(), int64(j.rules.Boot)) {
			return true
		}
	}
	return false
}

// died tells whether the node's process lost its connections while an attempt was
// under way.
func (j *judge) died(node string, t *Attempt) bool {
	for i := range j.h.Faults {
		f := &j.h.Faults[i]
		if f.dead() && f.Node == node && f.From <= t.Done && t.Sent <= f.By {
			return true
		}
	}
	return false
}
