package history

import "slices"

// Drain is a node that operators asked to own nothing, or that has asked for that
// itself, from when until when. Until 0: it lasts.
type Drain struct {
	Node        string
	From, Until int64
	// Entries are where the log says so; zero: it is not known.
	Entries Entries
}

// Cordon is a node that operators asked to get nothing that it does not have.
type Cordon struct {
	Node    string
	Entries Entries
}

// Entries are the part of the log in which something is in force: after Since, and
// before Till. Till 0: it lasts. Maps that are proposed in it, and whose epochs are thus
// within, are to go by it.
type Entries struct{ Since, Till uint64 }

func (e Entries) rule(m *Map) bool {
	return e.Since > 0 && e.Since < m.Epoch && (e.Till == 0 || m.Epoch < e.Till)
}

// plans judges that maps are as operators asked. A cordoned node may get what nobody else
// could: then every owner is cordoned.
func (j *judge) plans() {
	for i := range j.maps {
		m := &j.maps[i]
		for _, d := range j.h.Drains {
			if d.Entries.rule(m) && m.has(d.Node) && !j.stageOfDrain(i, &d) {
				j.report.add(Unplanned, "%s owns shards in the map of epoch %d, and is drained since %d", d.Node, m.Epoch, d.Entries.Since)
			}
		}
		if i == 0 {
			continue
		}
		cordoned := make(map[string]bool)
		for _, c := range j.h.Cordons {
			cordoned[c.Node] = cordoned[c.Node] || c.Entries.rule(m)
		}
		if !slices.ContainsFunc(m.Owners, func(node string) bool { return node != "" && !cordoned[node] }) {
			continue
		}
		for shard, node := range m.Owners {
			if before := j.maps[i-1].Owners[shard]; cordoned[node] && before != node {
				j.report.add(Unplanned, "%s gets shard %d of %q in the map of epoch %d, and is cordoned", node, shard, before, m.Epoch)
			}
		}
	}
}

// stageOfDrain reports whether a map may be a stage of a drain: the node keeps busy shards, of those
// that it had, up to DrainTimeout, and the round takes as long at most.
func (j *judge) stageOfDrain(i int, d *Drain) bool {
	if i == 0 || j.maps[i].At > after(d.From, j.rules.most(2*j.rules.DrainTimeout)) {
		return false
	}
	for shard, node := range j.maps[i].Owners {
		if node == d.Node && j.maps[i-1].Owners[shard] != node {
			return false
		}
	}
	return true
}

// graces judges that what a node has which restarts in place stays there until its grace
// is over, and that it gets nothing else. Nobody counts that sooner than from its
// SIGTERM. Another fault may have kept the log from hearing of it. A node that is back
// gives to who joins meanwhile, and gets from who leaves.
func (j *judge) graces() {
	for k := range j.h.Faults {
		f := &j.h.Faults[k]
		if f.Kind != Left || f.Grace == 0 || j.rules.SlowLog {
			continue
		}
		until := after(f.From, j.rules.least(f.Grace))
		if j.hurtIn(f.From, until) || j.drainedIn(f.Node, f.From, until) {
			continue
		}
		had := false
		for i := range j.maps {
			m := &j.maps[i]
			switch {
			case m.At <= f.From:
				had = m.has(f.Node)
			case m.At >= f.until() && j.stageOfJoin(i):
				// The node is back, and gives busy shards to a node that joined before.
			case i > 0 && m.At < until && had && !m.joined(&j.maps[i-1]):
				gives := func(node string) bool { return m.At >= f.until() && (!m.has(node) || j.leaving(node, f.From, m.At)) }
				if n := j.maps[i-1].differ(m, f.Node, gives); n > 0 {
					j.report.add(Restless, "%d shards of %s, which comes back within %v, moved in the map of epoch %d", n, f.Node, f.Grace, m.Epoch)
				}
			}
		}
	}
}

// stageOfJoin reports whether a map may be a later stage of a change by which a node joined: busy
// shards move up to DrainTimeout after the idle ones, and the round takes as long at most.
func (j *judge) stageOfJoin(i int) bool {
	for k := i; k > 0 && j.maps[i].At <= after(j.maps[k].At, j.rules.most(2*j.rules.DrainTimeout)); k-- {
		if j.maps[k].joined(&j.maps[k-1]) {
			return true
		}
	}
	return false
}

// leaving reports whether a node was drained or stopped in a time: it gives away its shards in
// stages, so it may have some left.
func (j *judge) leaving(node string, from, until int64) bool {
	return j.drainedIn(node, from, until) || slices.ContainsFunc(j.h.Faults, func(f Fault) bool {
		return f.Kind == Left && f.Node == node && f.during(from, until)
	})
}

// hurtIn tells whether anything was done to anybody in a time, but that nodes left.
func (j *judge) hurtIn(from, until int64) bool {
	for i := range j.h.Faults {
		if f := &j.h.Faults[i]; f.Kind != Left && f.during(from, until) && !j.brief(i) {
			return true
		}
	}
	return false
}

// drainedIn tells whether operators asked a node in a time to own nothing: that is no
// restart in place any more.
func (j *judge) drainedIn(node string, from, until int64) bool {
	return slices.ContainsFunc(j.h.Drains, func(d Drain) bool {
		return d.Node == node && d.From <= until && from <= orNever(d.Until)
	})
}

// joined tells whether somebody owns shards who had none before.
func (m *Map) joined(before *Map) bool {
	return slices.ContainsFunc(m.Owners, func(node string) bool { return node != "" && !before.has(node) })
}

// differ is how many shards a node has in one of two maps alone, but for those that it got from
// an owner that gives.
func (m *Map) differ(other *Map, node string, gives func(owner string) bool) (n int) {
	for s, owner := range m.Owners {
		if s >= len(other.Owners) || (owner == node) == (other.Owners[s] == node) {
			continue
		}
		if owner == node || !gives(owner) {
			n++
		}
	}
	return n
}
