package adminapi

import (
	"slices"

	"shardway/admin/api"
	"shardway/diagnosis"
	"shardway/shardmap"
)

// Findings contains the findings of a node and the inputs that they were computed from.
type Findings struct {
	Inputs diagnosis.Inputs
	List   []diagnosis.Finding
}

// first returns the node's finding with the first matching code, or false if there is none.
func (f Findings) first(codes ...diagnosis.Code) (diagnosis.Finding, bool) {
	for _, code := range codes {
		if i := slices.IndexFunc(f.List, func(finding diagnosis.Finding) bool { return finding.Code == code }); i >= 0 {
			return f.List[i], true
		}
	}
	return diagnosis.Finding{}, false
}

// update returns f updated to a snapshot. Because findings.Monitor only runs at intervals, the state and the
// findings of a status could otherwise contradict each other.
func (f Findings) update(s snapshot) Findings {
	committed := s.replicated.Committed()
	epoch, hasMap := uint64(committed.Epoch()), committed.Epoch() != 0
	isSameMap := f.Inputs.Epoch == epoch && f.Inputs.HasMap == hasMap
	hasNewLease := f.Inputs.NoLeaseFor != 0 && s.hasLease()
	hasNewLeader := f.Inputs.Leader == "" && s.leader != ""
	inputs := f.Inputs
	inputs.Shards, inputs.ProposedEpoch = s.startedShards, uint64(s.replicated.Proposed().Epoch())
	inputs.HasOperated = inputs.HasOperated || hasMap && s.leader != "" && (committed.ShardCount(s.self) == 0 || s.hasLease())
	inputs.Nodes = slices.Clone(inputs.Nodes)
	SetNodeStates(inputs.Nodes, s.nodes)
	isSameIsolation := f.Inputs.LeaderUnknown == s.isolated
	if isSameMap && isSameIsolation && !hasNewLease && !hasNewLeader {
		return Findings{Inputs: inputs, List: f.List}
	}
	inputs.Epoch, inputs.HasMap, inputs.LeaderUnknown = epoch, hasMap, s.isolated
	inputs.Orphaned = min(inputs.Orphaned, s.replicated.OrphanCount())
	if s.leader != "" {
		inputs.Leader, inputs.NoLeaderFor = s.leader, 0
	}
	if hasNewLease {
		inputs.NoLeaseFor = 0
	}
	for i := range inputs.Nodes {
		node := &inputs.Nodes[i]
		node.Shards = committed.ShardCount(shardmap.NodeID(node.ID))
		node.Lost = node.Lost && node.Shards > 0
	}
	return Findings{Inputs: inputs, List: diagnosis.Findings(inputs)}
}

// SetNodeStates sets Failed and Left of nodes according to a list from API.Nodes.
func SetNodeStates(nodes []diagnosis.Node, list []api.Node) {
	for i := range nodes {
		if index := slices.IndexFunc(list, func(node api.Node) bool { return node.ID == nodes[i].ID }); index >= 0 {
			nodes[i].Failed, nodes[i].Left = list[index].State == "failed", list[index].State == "left"
		}
	}
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
