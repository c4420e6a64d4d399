package ack

import (
	"errors"
	"fmt"

	"shardway/ack/join"
	"shardway/shardmap"
)

// MinIndexGap is the minimum distance between the last entry in the log of a surviving node and the
// start of a recovered log. The lost nodes cannot have written so many entries after the survivor
// lost its connection to them.
const MinIndexGap = 1 << 32

// Recovered returns the initial state of a new cluster that continues where s ends, because
// the old cluster has lost its quorum or only a backup of it is left. It has the same shards
// and placement, under another cluster id, as if the entry at the index floor had been a
// commit. The new log begins at floor, which must be at least MinIndexGap above the last entry of
// s.
//
// # Why floor is an index
//
// The lost nodes may have proposed and served maps that s does not contain, so all new epochs must
// be above every epoch that the lost nodes can have used. An epoch is the Raft index of its
// proposal. State could have a field that is added to each index. Instead, Recovered makes the log
// continue at a far higher index. Raft allows that: a snapshot may have any index, and the next
// entry follows it. An epoch remains an index, so a log can still be compared with a map. State,
// codec and protocol need no special case that could be forgotten.
//
// # What is reset
//
// Every owner keeps its shards, so that it finds their state on its local disk. No ownership epoch
// survives, because a shard may have had other owners since s, and a store of the app may have
// recorded their epochs. All ownership epochs become floor. An open proposal is discarded with its
// holds: whether the other nodes committed it is unknown, and its epoch is below floor. Drops are
// discarded: a node that returns has another disk and must acknowledge floor first. Restarts are
// also discarded. The policy keeps only weights, pins and quarantines, see
// Policy.ForRecoveredCluster. No shard counts as released, because its state may have changed since
// s.
func (s *State) Recovered(cluster string, floor uint64) (*State, error) {
	switch {
	case !s.Bootstrapped():
		return nil, errors.New("ack: recover: the log contains no cluster")
	case cluster == s.clusterID || cluster == "" || len(cluster) > maxText:
		return nil, fmt.Errorf("ack: recover: cluster id %q after %q", cluster, s.clusterID)
	case floor < s.MaxIndex()+MinIndexGap || floor < s.index:
		return nil, fmt.Errorf("ack: recover: floor %d is not %d above %d", floor, uint64(MinIndexGap), s.MaxIndex())
	}
	recovered := s.committed
	if recovered.Epoch() > 0 {
		recovered = recovered.WithEpoch(shardmap.New(recovered.Len()), shardmap.Epoch(floor))
	}
	next := *s
	next.clusterID, next.index = cluster, floor
	next.committed = recovered
	next.policy = s.policy.ForRecoveredCluster()
	// An open proposal is discarded.
	next.proposed, next.proposedTerm, next.proposalReason = recovered, 0, ""
	next.keyConfig.proposed = ""
	// Records about nodes of the old cluster are discarded.
	next.drops, next.formerMembers, next.previousOwners = nil, nil, nil
	next.restarts = restartRecords{}
	next.joins = join.Records{}
	if s.formatVersion.HasJoins() {
		next.joins = join.ForRecoveredCluster()
	}
	// Released state may have changed since s.
	next.releaseRecords = releaseRecords{}
	return &next, nil
}

// MaxIndex returns the largest index or epoch in the state.
func (s *State) MaxIndex() uint64 { return max(s.index, uint64(s.proposed.Epoch())) }
