package ack

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"shardway/shardmap"
)

// MaxGrace is the maximum time that a node may announce for its restart.
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
	// Ended is set if an entry has ended the restart. The record remains, because a boot can
	// restart only once.
	Ended bool
}

// restartRecords contains the last restart in place of each member.
type restartRecords struct {
	byNode map[shardmap.NodeID]Restart
	index  uint64 // index of the last entry that changed byNode
}

// Restart returns the record of the last restart of the node, as long as it is a member of the
// committed map.
func (s *State) Restart(node shardmap.NodeID) (Restart, bool) {
	restart, ok := s.restarts.byNode[node]
	return restart, ok
}

// Restarts returns the records of the last restarts, by node. The Go map must not be modified.
func (s *State) Restarts() map[shardmap.NodeID]Restart { return s.restarts.byNode }

// RestartsIndex returns the index of the last entry that has changed a restart, or zero if there is
// none.
func (s *State) RestartsIndex() uint64 { return s.restarts.index }

// Restarting reports whether the cluster waits for the node.
func (s *State) Restarting(node shardmap.NodeID) bool {
	restart, ok := s.restarts.byNode[node]
	return ok && !restart.Ended
}

// RestartEntry is the log entry that begins a restart, or ends it.
type RestartEntry struct {
	// Term is the Raft term of the leader that received the goodbye (see ProposalEntry).
	Term uint64
	Node shardmap.NodeID
	Boot uint64
	// Grace is how long the cluster waits for the node. It is zero in the entry that ends the
	// restart.
	Grace time.Duration

	// The following fields are zero without a release.

	// Released are the releases for the next process, ordered by shard.
	Released []Released
	// Server is the disk that released them.
	Server string
	// Proposal is the last proposal that the node had acknowledged by then.
	Proposal shardmap.Epoch
}

// applyRestart applies the begin or the end of a restart. Each boot can have one: the stopped
// process may run for a long time and send its goodbye to the next leader.
func (s *State) applyRestart(term uint64, entry RestartEntry) (*State, Outcome, error) {
	if !s.Bootstrapped() || term != entry.Term {
		return s.ignore()
	}
	if begins := entry.Grace > 0; !begins {
		if ended := s.restarts.endBoot(entry.Node, entry.Boot, s.index); !ended {
			return s.ignore() // another restart has begun since, or this one has ended
		}
		return s, OutcomeRestartChanged, nil
	}
	isMember := s.committed.IsMember(entry.Node) && s.proposed.IsMember(entry.Node)
	if !isMember || !s.restarts.mayBegin(entry) {
		return s.ignore()
	}
	s.restarts.set(entry.Node, Restart{Boot: entry.Boot, Grace: entry.Grace}, s.index)
	s.releaseRecords.recordRestart(s.committed, entry, s.index)
	return s, OutcomeRestartChanged, nil
}

// mayBegin reports whether the boot of an entry has had no restart yet.
func (rr *restartRecords) mayBegin(entry RestartEntry) bool {
	restart, known := rr.byNode[entry.Node]
	return !known || restart.Boot < entry.Boot
}

// set sets the record of a node. index is the index of the entry that changes it.
func (rr *restartRecords) set(node shardmap.NodeID, restart Restart, index uint64) {
	rr.byNode = maps.Clone(rr.byNode)
	setKey(&rr.byNode, node, restart)
	rr.index = index
}

// endBoot ends the restart of the given boot. It returns false if that restart has already ended.
func (rr *restartRecords) endBoot(node shardmap.NodeID, boot, index uint64) (ended bool) {
	restart := rr.byNode[node]
	if restart.Boot != boot || restart.Ended {
		return false
	}
	restart.Ended = true
	rr.set(node, restart, index)
	return true
}

// end ends the restart of a dropped node. An operator has reported that it does not return, and the
// next leader may not know that.
func (rr *restartRecords) end(node shardmap.NodeID, index uint64) {
	if restart, ok := rr.byNode[node]; ok && !restart.Ended {
		restart.Ended = true
		rr.set(node, restart, index)
	}
}

// removeOthers removes the records of nodes that are no members of the committed map.
func (rr *restartRecords) removeOthers(committed *shardmap.Map, index uint64) {
	kept := maps.Clone(rr.byNode)
	maps.DeleteFunc(kept, func(id shardmap.NodeID, _ Restart) bool { return !committed.IsMember(id) })
	if len(kept) != len(rr.byNode) {
		rr.byNode, rr.index = kept, index
	}
}

// EncodeRestart encodes the entry in the given format version.
func EncodeRestart(version FormatVersion, entry RestartEntry) []byte {
	w := newWriter(version)
	w.byte(kindRestart)
	w.uint(entry.Term)
	w.text(string(entry.Node))
	w.uint(entry.Boot)
	w.uint(uint64(entry.Grace))
	w.bool(len(entry.Released) > 0)
	if len(entry.Released) > 0 {
		w.text(entry.Server)
		w.uint(uint64(entry.Proposal))
		w.writeReleases(entry.Released)
	}
	return w.buf
}

// readRestartEntry decodes the output of EncodeRestart after its kind.
func (r *reader) readRestartEntry() RestartEntry {
	entry := RestartEntry{Term: r.uint(0, maxUint), Node: r.readNode(), Boot: r.uint(1, maxUint), Grace: time.Duration(r.uint(0, uint64(MaxGrace)))}
	if !r.bool() {
		return entry
	}
	entry.Server, entry.Proposal, entry.Released = r.text(1, 2*maxText), shardmap.Epoch(r.uint(1, maxUint)), r.readReleases()
	begins := entry.Grace > 0
	isOwnServer := nodeOfServer(entry.Server) == entry.Node
	if r.err == nil && (!begins || len(entry.Released) == 0 || !isOwnServer) {
		r.fail("restart with releases of another node")
	}
	return entry
}

// writeRestarts writes the restart records in a fixed order.
func (w *writer) writeRestarts(records restartRecords) {
	w.uint(records.index)
	w.uint(uint64(len(records.byNode)))
	for _, id := range slices.Sorted(maps.Keys(records.byNode)) {
		restart := records.byNode[id]
		w.text(string(id))
		w.uint(restart.Boot)
		w.uint(uint64(restart.Grace))
		w.bool(restart.Ended)
	}
}

// readRestarts decodes the output of writer.writeRestarts. All nodes must be members of the committed map.
func (r *reader) readRestarts(committed *shardmap.Map) restartRecords {
	index := r.uint(0, maxUint)
	byNode := readSorted(r, r.readNode, func() Restart {
		return Restart{Boot: r.uint(1, maxUint), Grace: r.readDuration(MaxGrace), Ended: r.bool()}
	})
	for id := range byNode {
		if r.err == nil && !committed.IsMember(id) {
			r.fail(fmt.Sprintf("restart of %q, which is not in the map", id))
		}
	}
	return restartRecords{byNode: byNode, index: index}
}
