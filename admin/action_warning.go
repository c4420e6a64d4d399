package admin

import (
	"context"
	"fmt"
	"slices"

	"shardway/admin/api"
)

// warningOf returns the warning in the response to an action that the cluster has performed, or "".
func (s *Server) warningOf(action api.Action) string {
	if action.Verb != api.Pin || action.Node == "" {
		return ""
	}
	number, shardMap := action.Shard, s.api.Cluster.Map()
	if service, err := findService(&shardMap, action.Service); err == nil {
		number += service.First
	}
	shard, _ := s.api.Cluster.Shards().Find(number)
	return pinWarning(action, shard.Owner, s.api.Cluster.Status().Nodes, s.api.Policy.Policy())
}

// drainWarning returns the warning for a drain of the last node that runs a service, or "".
func (s *Server) drainWarning(ctx context.Context, action api.Action) string {
	if action.Verb != api.Drain || s.api.Services == nil {
		return ""
	}
	policy := s.api.Policy.Policy()
	isLeaving := func(node string) bool {
		return slices.Contains(policy.Drained, node) || slices.Contains(policy.MarkedFailed, node)
	}
	return s.api.Services.Services(ctx).DrainWarning(action.Node, isLeaving)
}

// pinWarning returns what happens to a pinned shard until the node of the pin can own it, or "" if the node
// can own it now. owner is the current owner of the shard, and policy contains the other requests of operators.
func pinWarning(action api.Action, owner string, nodes []api.Node, policy api.Policy) string {
	state := pinState(action.Node, owner, nodes, policy)
	if state == "" {
		return ""
	}
	until := fmt.Sprintf("node %q %s: until it can own shards, %s ", action.Node, state, describeShard(action))
	for _, fallback := range action.Fallbacks {
		if pinState(fallback, owner, nodes, policy) == "" {
			return until + fmt.Sprintf("belongs to node %q, the next node of the pin, and then moves to node %q", fallback, action.Node)
		}
	}
	return until + fmt.Sprintf("is placed as if it had no pin, and then moves to node %q", action.Node)
}

// pinState returns why a node cannot own a pinned shard now, or "" if it can. A cordoned node keeps the shards that it owns.
func pinState(id, owner string, nodes []api.Node, policy api.Policy) string {
	i := slices.IndexFunc(nodes, func(node api.Node) bool { return node.ID == id })
	if i < 0 {
		return "is not known to this node"
	}
	node := nodes[i]
	switch {
	case node.Role == "gateway":
		return "is a gateway"
	case slices.Contains(policy.MarkedFailed, id):
		return "is marked as failed"
	case policy.Role != "" && !slices.Contains(node.Roles, policy.Role):
		return fmt.Sprintf("does not have the role %q, to which shards are restricted", policy.Role)
	case node.State == "active", node.State == "cordoned" && id == owner:
		return ""
	case node.State == "failed", node.State == "suspect", node.State == "left":
		return "is not alive (" + node.State + ")"
	}
	return "is " + node.State
}
