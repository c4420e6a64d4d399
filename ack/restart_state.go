package ack

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"shardway/shardmap"
)

// MaxGrace is the longest time within which a node may announce its restart.
const MaxGrace = 10 * time.Minute

// Restart is the record of a node that has sent a goodbye and announced its return: a restart
// in place. Until the restart is over, the next map leaves the shards of the node in place,
// without its acknowledgement. The record does not decide who may serve or which shards may be
// taken. The stopped process serves nothing, the next process needs a lease like any other,
// and a commit without the acknowledgement of the node moves none of its shards.
type Restart struct {
	// Boot is the boot that sent the goodbye.
	Boot uint64
	// Grace is how long the cluster waits for the node. Each leader measures it from when it
	// applied the entry, or from its election: there is no shared clock, and the restart never
	// ends early.
	Grace time.Duration
	// Ended means that an entry has ended the restart. The record remains, because a boot can
	// restart only once.
	Ended bool
}

// Restart returns the record of the last restart of the node, as long as it is a member of the
// committed map.
func (s *State) Restart(node shardmap.NodeID) (Restart, bool) {
	a, ok := s.restarts[node]
	return a, ok
}

// Restarts returns the records of the last restarts, by node. The Go map must not be modified.
func (s *State) Restarts() map[shardmap.NodeID]Restart { return s.restarts }

// RestartsIndex returns the index of the last entry that has changed a restart; zero means none.
func (s *State) RestartsIndex() uint64 { return s.restartsIndex }

// Restarting reports whether the cluster waits for the node.
func (s *State) Restarting(node shardmap.NodeID) bool {
	a, ok := s.restarts[node]
	return ok && !a.Ended
}

// RestartEntry is the log entry that begins a restart, or ends it.
type RestartEntry struct {
	// Term is the Raft term of the leader that received the goodbye (see ProposalEntry).
	Term uint64
	Node shardmap.NodeID
	Boot uint64
	// Grace is zero in the entry that ends the restart.
	Grace time.Duration
	// Released are the releases for the next process, ordered by shard. Server is the disk
	// that released them, and Proposal its last acknowledgement by then. All three are zero
	// without a release.
	Released []Released
	Server   string
	Proposal shardmap.Epoch
}

// applyRestart applies the begin or the end of a restart. Each boot can have one: the stopped
// process may run for a long time and send its goodbye to the next leader.
func (s *State) applyRestart(term uint64, c RestartEntry) (*State, Outcome, error) {
	a, known := s.restarts[c.Node]
	begins := c.Grace > 0 && s.committed.Has(c.Node) && s.proposed.Has(c.Node) && (!known || a.Boot < c.Boot)
	ends := c.Grace == 0 && known && a.Boot == c.Boot && !a.Ended
	if !s.Bootstrapped() || term != c.Term || !begins && !ends {
		return s.ignore()
	}
	if begins {
		a = Restart{Boot: c.Boot, Grace: c.Grace}
		s.recordKeptReleases(c)
	}
	a.Ended = ends
	s.restarts = maps.Clone(s.restarts)
	setKey(&s.restarts, c.Node, a)
	s.restartsIndex = s.index
	return s, OutcomeRestartChanged, nil
}

// endRestart ends the restart of a dropped node. An operator has reported that it does not
// return, and the next leader may not know that.
func (s *State) endRestart(node shardmap.NodeID) {
	if a, ok := s.restarts[node]; ok && !a.Ended {
		a.Ended = true
		s.restarts = maps.Clone(s.restarts)
		s.restarts[node], s.restartsIndex = a, s.index
	}
}

// removeOldRestarts removes the records of nodes that the committed map no longer has.
func (s *State) removeOldRestarts() {
	kept := maps.Clone(s.restarts)
	maps.DeleteFunc(kept, func(id shardmap.NodeID, _ Restart) bool { return !s.committed.Has(id) })
	if len(kept) != len(s.restarts) {
		s.restarts, s.restartsIndex = kept, s.index
	}
}

// EncodeRestart returns the entry at a level.
func EncodeRestart(at FormatVersion, c RestartEntry) []byte {
	w := newWriter(at)
	w.byte(kindRestart)
	w.uint(c.Term)
	w.text(string(c.Node))
	w.uint(c.Boot)
	w.uint(uint64(c.Grace))
	w.bool(len(c.Released) > 0)
	if len(c.Released) > 0 {
		w.text(c.Server)
		w.uint(uint64(c.Proposal))
		w.releases(c.Released)
	}
	return w.buf
}

func (r *reader) restartEntry() RestartEntry {
	c := RestartEntry{Term: r.uint(0, maxUint), Node: r.node(), Boot: r.uint(1, maxUint), Grace: time.Duration(r.uint(0, uint64(MaxGrace)))}
	if !r.bool() {
		return c
	}
	c.Server, c.Proposal, c.Released = r.text(1, 2*maxText), shardmap.Epoch(r.uint(1, maxUint)), r.releases()
	if r.err == nil && (c.Grace == 0 || len(c.Released) == 0 || nodeOfServer(c.Server) != c.Node) {
		r.fail("restart with releases of another node")
	}
	return c
}

// restarts writes the restart records in a fixed order.
func (w *writer) restarts(s *State) {
	w.uint(s.restartsIndex)
	w.uint(uint64(len(s.restarts)))
	for _, id := range slices.Sorted(maps.Keys(s.restarts)) {
		a := s.restarts[id]
		w.text(string(id))
		w.uint(a.Boot)
		w.uint(uint64(a.Grace))
		w.bool(a.Ended)
	}
}

// restarts reads the output of writer.restarts.
func (r *reader) restarts(s *State) {
	s.restartsIndex = r.uint(0, maxUint)
	s.restarts = readSorted(r, r.node, func() Restart {
		return Restart{Boot: r.uint(1, maxUint), Grace: r.duration(MaxGrace), Ended: r.bool()}
	})
	for id := range s.restarts {
		if r.err == nil && !s.committed.Has(id) {
			r.fail(fmt.Sprintf("restart of %q, which is not in the map", id))
		}
	}
}
