package adminapi

import (
	"slices"

	"shardway/diagnosis"
	"shardway/shardmap"
)

// Findings contains the findings of a node, and the inputs from which they were computed.
type Findings struct {
	Inputs diagnosis.Inputs
	List   []diagnosis.Finding
}

// first returns the finding with the first of codes that the node has. The second result is false if
// there is none.
func (f Findings) first(codes ...diagnosis.Code) (diagnosis.Finding, bool) {
	for _, code := range codes {
		if i := slices.IndexFunc(f.List, func(finding diagnosis.Finding) bool { return finding.Code == code }); i >= 0 {
			return f.List[i], true
		}
	}
	return diagnosis.Finding{}, false
}

// update returns f, updated to a committed map, to the leader of that time ("" means none) and to the lease.
// The monitor (findings.Monitor) runs only at intervals, so without the update the state and the findings of
// one status could contradict each other.
func (f Findings) update(committed *shardmap.Map, leaderID string, hasLease bool) Findings {
	epoch, hasMap := uint64(committed.Epoch()), committed.Epoch() != 0
	isSameMap := f.Inputs.Epoch == epoch && f.Inputs.HasMap == hasMap
	hasNewLease := f.Inputs.NoLeaseFor != 0 && hasLease
	hasNewLeader := f.Inputs.Leader == "" && leaderID != ""
	if isSameMap && !hasNewLease && !hasNewLeader {
		return f
	}
	inputs := f.Inputs
	inputs.Epoch, inputs.HasMap = epoch, hasMap
	inputs.Orphaned = min(inputs.Orphaned, committed.OrphanCount())
	if leaderID != "" {
		inputs.Leader, inputs.NoLeaderFor = leaderID, 0
	}
	if hasNewLease {
		inputs.NoLeaseFor = 0
	}
	inputs.Nodes = slices.Clone(inputs.Nodes)
	for i := range inputs.Nodes {
		node := &inputs.Nodes[i]
		node.Shards = committed.ShardCount(shardmap.NodeID(node.ID))
		node.Lost = node.Lost && node.Shards > 0
	}
	return Findings{Inputs: inputs, List: diagnosis.Findings(inputs)}
}

// keepsShards reports whether the leader lets an unhealthy node keep its shards, because most apps are
// unhealthy.
func (f Findings) keepsShards(node string) bool {
	for _, inputs := range f.Inputs.Nodes {
		if inputs.ID == node {
			return inputs.KeepsShards
		}
	}
	return false
}

// notServingReasons returns a function that returns why an owner does not serve its shards; empty means that
// the owner serves them. The function computes the reason only once for each owner.
func (f Findings) notServingReasons() func(owner string) string {
	reasons := map[string]string{}
	return func(owner string) string {
		reason, isKnown := reasons[owner]
		if !isKnown {
			reason = f.Inputs.NotServingReason(owner)
			reasons[owner] = reason
		}
		return reason
	}
}
