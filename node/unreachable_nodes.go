package node

import (
	"slices"

	"shardway/ack"
	"shardway/node/gossip"
	"shardway/shardmap"
)

// isWatchedOwner reports whether this node must inform the leader if it cannot reach another node. Such a node is a member
// of the map, or was excluded because most members could not reach it.
func (n *Node) isWatchedOwner(node string) bool {
	id, state := shardmap.NodeID(node), n.fsm.state.Load()
	if id == n.self {
		return false
	}
	return state.Proposed().IsMember(id) || state.Committed().IsMember(id) || mustBecomeReachable(state, n.gossip.Members, id)
}

// mustBecomeReachable reports whether a node is excluded because most members could not reach it, and would own shards
// again if they could. A node that is drained or marked as failed, a gateway, and a node that leaves or has left would
// not. members returns the
// members of gossip.
func mustBecomeReachable(state *ack.State, members func() []gossip.Member, node shardmap.NodeID) bool {
	drop, _ := state.Drop(node)
	if !drop.InForce || drop.Cause != ack.CauseUnreachable || state.Policy().Drained[node] || state.Policy().MarkedFailed[node] {
		return false
	}
	return !slices.ContainsFunc(members(), func(member gossip.Member) bool {
		hasLeft := member.Status == gossip.Leaving || member.Status == gossip.Left
		return member.ID == string(node) && member.Node && (hasLeft || member.Tags.Role == gossip.RoleGateway)
	})
}

// unreachableExcluded returns the other nodes that would own shards if most members could reach them.
func (n *Node) unreachableExcluded() (nodes []string) {
	state := n.fsm.state.Load()
	for _, id := range state.FormerMembers() {
		if id != n.self && mustBecomeReachable(state, n.gossip.Members, id) {
			nodes = append(nodes, string(id))
		}
	}
	return nodes
}
