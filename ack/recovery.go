package ack

import (
	"errors"
	"fmt"

	"shardway/shardmap"
)

// MinJump is how far above the last entry that a survivor knows a recovered log
// goes on, at the least: more than others can have written without it.
const MinJump = 1 << 32

// Recovered returns the state with which a new cluster goes on where s ends,
// because the old one lost its quorum or only a backup of it is left: the same
// shards and placement under another cluster id, as if the entry at the given
// index, the floor, had been a commit. The floor must be at least MinJump above
// the last entry of s; it is where the new log begins.
//
// # Why the floor is an index
//
// The nodes that were lost may have proposed and served maps that s has not seen,
// so everything that is handed out from now on must be above what they can have
// used. An epoch is the Raft index of its proposal. There were two ways: a field
// of State, the floor, added to each index; or a log that goes on at a far higher
// index. The log it is. Raft allows for it (a snapshot may stand at any index, and
// the next entry follows it), the sentence "the epoch is the index" stays true
// for whoever compares a log with a map, and no line of State, codec or protocol
// knows of recoveries, so none can forget to add.
//
// # What is made new
//
// Every owner keeps its shards, so that state on its local disk is found again,
// but no ownership epoch survives: a shard that s shows with its old owner may
// have had others since, whose epochs a store behind the app has seen. They all
// become the floor. What is only proposed is dropped with its holds: whether the
// others committed it nobody can tell, and its epoch is below the floor. Drops are
// forgotten: who comes back is another disk and must acknowledge the floor first. So
// is who was absent. Of the policy only weights, pins and quarantines stay, see
// Policy.Lasting. Nothing counts as released: what this state has not seen may have
// changed it.
func (s *State) Recovered(cluster string, floor uint64) (*State, error) {
	switch {
	case !s.Bootstrapped():
		return nil, errors.New("ack: recover: the log holds no cluster")
	case cluster == s.cluster || cluster == "" || len(cluster) > maxText:
		return nil, fmt.Errorf("ack: recover: cluster id %q after %q", cluster, s.cluster)
	case floor < s.MaxIndex()+MinJump || floor < s.index:
		return nil, fmt.Errorf("ack: recover: floor %d is not %d above %d", floor, uint64(MinJump), s.MaxIndex())
	}
	m := s.committed
	if m.Epoch() > 0 {
		m = m.Settle(shardmap.New(m.Len()), shardmap.Epoch(floor))
	}
	n := *s
	n.cluster, n.index, n.committed, n.last, n.lastTerm, n.reason, n.drops = cluster, floor, m, m, 0, "", nil
	n.policy = s.policy.Lasting()
	n.restarts, n.restartsIndex = nil, 0
	n.previous = nil     // those whom the log names are of another cluster
	n.releaseNotes = nil // and what they released may have been changed since
	n.keptNotes = nil
	n.formerMembers = nil // of another cluster, too
	n.proposedKeys = ""
	return &n, nil
}

// Above returns the largest index and epoch in the state.
func (s *State) MaxIndex() uint64 { return max(s.index, uint64(s.last.Epoch())) }
