package ack

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"shardway/shardmap"
)

// MaxGrace is the longest for which a node may say that it comes back.
const MaxGrace = 10 * time.Minute

// Absence is what the replicated state remembers of a node that has said goodbye and
// that it comes back: one that restarts in place. Until it is over, the map that ought
// to be gives the node exactly what it has, and does not wait for its word. It says
// nothing about who may serve or what may be taken: a process that has said goodbye
// serves nothing, the next one gets its lease as any, and what a commit does without
// the node's word moves none of its shards.
type Restart struct {
	// Boot is the one that said goodbye.
	Boot uint64
	// Grace is for how long it is waited for. Each leader counts that from when it
	// applied the entry, or from its election: no clock is shared, and no end is early.
	Grace time.Duration
	// Over: an entry has ended it. What is left says that this boot has had its time.
	Over bool
}

// Absence returns what is remembered of the node's last absence, as long as the map
// that routes has the node.
func (s *State) Restart(node shardmap.NodeID) (Restart, bool) {
	a, ok := s.restarts[node]
	return a, ok
}

// Absent reports whether the node is waited for.
func (s *State) Restarting(node shardmap.NodeID) bool {
	a, ok := s.restarts[node]
	return ok && !a.Over
}

// absenting begins an absence, or ends it.
type restartEntry struct {
	// term is the Raft term of the leader that heard of it, as with a proposal.
	term uint64
	node shardmap.NodeID
	boot uint64
	// grace is zero for the end.
	grace time.Duration
	// released are the shards that the next process gets as released, ordered by number,
	// server is the disk that has released them, and proposal what it had acknowledged by
	// then. Without any, all three are zero.
	released []Released
	server   string
	proposal shardmap.Epoch
}

// absented takes the begin or the end of an absence. A boot has one: the process that
// said goodbye may go on for long, and be heard by the next leader.
func (s *State) applyRestart(term uint64, c restartEntry) (*State, Outcome, error) {
	a, known := s.restarts[c.node]
	begins := c.grace > 0 && s.committed.Has(c.node) && s.last.Has(c.node) && (!known || a.Boot < c.boot)
	ends := c.grace == 0 && known && a.Boot == c.boot && !a.Over
	if !s.Bootstrapped() || term != c.term || !begins && !ends {
		return s.ignore()
	}
	if begins {
		a = Restart{Boot: c.boot, Grace: c.grace}
		s.recordKept(c)
	}
	a.Over = ends
	s.restarts = maps.Clone(s.restarts)
	setKey(&s.restarts, c.node, a)
	s.restartsIndex = s.index
	return s, OutcomeRestartChanged, nil
}

// waitNoMore ends the absence of one who is dropped, because an operator says that it
// does not come back. The next leader has not heard that word.
func (s *State) endRestart(node shardmap.NodeID) {
	if a, ok := s.restarts[node]; ok && !a.Over {
		a.Over = true
		s.restarts = maps.Clone(s.restarts)
		s.restarts[node], s.restartsIndex = a, s.index
	}
}

// forgetAbsences forgets those whom the map that is committed has no more.
func (s *State) boundRestarts() {
	kept := maps.Clone(s.restarts)
	maps.DeleteFunc(kept, func(id shardmap.NodeID, _ Restart) bool { return !s.committed.Has(id) })
	if len(kept) != len(s.restarts) {
		s.restarts, s.restartsIndex = kept, s.index
	}
}

func encodeRestart(at Level, c restartEntry) []byte {
	w := newWriter(at)
	w.byte(kindRestart)
	w.uint(c.term)
	w.text(string(c.node))
	w.uint(c.boot)
	w.uint(uint64(c.grace))
	w.bool(len(c.released) > 0)
	if len(c.released) > 0 {
		w.text(c.server)
		w.uint(uint64(c.proposal))
		w.releases(c.released)
	}
	return w.b
}

func (r *reader) restartEntry() restartEntry {
	c := restartEntry{term: r.uint(0, maxUint), node: r.node(), boot: r.uint(1, maxUint), grace: time.Duration(r.uint(0, uint64(MaxGrace)))}
	if !r.bool() {
		return c
	}
	c.server, c.proposal, c.released = r.text(1, 2*maxText), shardmap.Epoch(r.uint(1, maxUint)), r.releases()
	if r.err == nil && (c.grace == 0 || len(c.released) == 0 || nodeOf(c.server) != c.node) {
		r.fail("an absence with releases that are not the node's")
	}
	return c
}

// absences writes the absences; the same ones give the same bytes on every node.
func (w *writer) restarts(s *State) {
	w.uint(s.restartsIndex)
	w.uint(uint64(len(s.restarts)))
	for _, id := range slices.Sorted(maps.Keys(s.restarts)) {
		a := s.restarts[id]
		w.text(string(id))
		w.uint(a.Boot)
		w.uint(uint64(a.Grace))
		w.bool(a.Over)
	}
}

// absences reads what the writer's absences wrote, and nothing else.
func (r *reader) restarts(s *State) {
	s.restartsIndex = r.uint(0, maxUint)
	s.restarts = readSorted(r, r.node, func() Restart {
		return Restart{Boot: r.uint(1, maxUint), Grace: r.duration(MaxGrace), Over: r.bool()}
	})
	for id := range s.restarts {
		if r.err == nil && !s.committed.Has(id) {
			r.fail(fmt.Sprintf("absence of %q, whom the map does not have", id))
		}
	}
}
