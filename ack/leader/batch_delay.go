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
	isFirstMap := l.in.state.Proposed().Epoch() == 0
	isFirstRound := !l.ownRoundCommitted && !l.in.state.HasOpenProposal()
	switch {
	case isFirstMap:
		if len(want.Members()) < l.members.expectedOwners(l.options.BootstrapExpect) {
			return maxBatchDelay
		}
		return 0
	case isFirstRound: // of this leader (rule 4)
		return 0
	case onlyAddsNodes(l.in, want):
		return min(l.in.timing.DeadAfter/batchFraction, maxBatchDelay)
	}
	return minBatchDelay
}

// expectedOwners returns the expected number of members of the first map: the nodes that form
// the cluster, without gateways and leaving nodes.
func (mt *memberTracker) expectedOwners(bootstrapExpect int) int {
	count := bootstrapExpect
	for _, node := range mt.byID {
		if node.heartbeat.Gateway || node.isStopping() {
			count--
		}
	}
	return count
}

// hasInstancesOf reports whether the member has all instances of the old one. Additional instances count as an
// addition.
func hasInstancesOf(member, old shardmap.Member) bool {
	for _, instance := range old.Instances.All() {
		if !member.Instances.Has(instance) {
			return false
		}
	}
	return true
}

// onlyAddsNodes reports whether want has all members of the last proposal with their instances, and
// further ones that own nothing yet, or the shards of a new service. The nodes that run a new service report
// it one after the other. A node that returns while the committed map still contains it is no
// addition: its shards are held until then.
func onlyAddsNodes(in inputs, want *shardmap.Map) bool {
	last, committed := in.state.Proposed(), in.state.Committed()
	kept := 0
	for _, member := range want.Members() {
		old, isOld := findMember(last, member.ID)
		switch {
		case isOld && old.Weight == member.Weight && hasInstancesOf(member, old):
			kept++
		case isOld || committed.IsMember(member.ID):
			return false
		}
	}
	return kept == len(last.Members()) && (len(want.Members()) > kept || want.Len() > last.Len())
}
