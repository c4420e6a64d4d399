package leader

import (
	"time"

	"shardway/shardmap"
)

const (
	// Changes that only add nodes are batched for 1/batchFraction of dead-after.
	batchFraction = 5
	// maxBatchDelay is how long the first map waits for the nodes that form the cluster,
	// counted from the first eligible node. It also limits the batching of additions with a
	// long dead-after.
	maxBatchDelay = 2 * time.Second
)

// batchDelay returns how long a pending map change may wait for further changes. Adding nodes
// one at a time costs an extra map each and moves shards twice. A shard without a live owner
// never waits.
func (l *Leader) batchDelay(want *shardmap.Map) time.Duration {
	switch {
	case l.state.Proposed().Epoch() == 0:
		if len(want.Members()) < l.expectedNodes() {
			return maxBatchDelay
		}
		return 0
	case !l.ownRoundCommitted && !l.state.HasOpenProposal():
		return 0
	case l.onlyAddsNodes(want):
		return min(l.maxTiming.DeadAfter/batchFraction, maxBatchDelay)
	}
	return minBatchDelay
}

// expectedNodes returns the expected number of members of the first map: the nodes that form
// the cluster, without gateways and leaving nodes.
func (l *Leader) expectedNodes() int {
	count := l.options.BootstrapExpect
	for _, node := range l.members {
		if node.heartbeat.Gateway || node.heartbeat.Leaving || node.heartbeat.Goodbye {
			count--
		}
	}
	return count
}

// onlyAddsNodes reports whether want has all members of the last proposal, and further ones
// that own nothing yet. A node that returns while the committed map still contains it is no
// addition: its shards are held until then.
func (l *Leader) onlyAddsNodes(want *shardmap.Map) bool {
	last, base := l.state.Proposed(), l.state.Committed()
	kept := 0
	for _, member := range want.Members() {
		old, ok := findMember(last, member.ID)
		switch {
		case ok && old.Weight == member.Weight:
			kept++
		case ok || base.IsMember(member.ID):
			return false
		}
	}
	return kept == len(last.Members()) && len(want.Members()) > kept
}

// findMember returns the member with the given id.
func findMember(from *shardmap.Map, id shardmap.NodeID) (shardmap.Member, bool) {
	for _, member := range from.Members() {
		if member.ID == id {
			return member, true
		}
	}
	return shardmap.Member{}, false
}
