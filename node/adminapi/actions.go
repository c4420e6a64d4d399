package adminapi

import (
	"context"

	"shardway/admin/api"
	"shardway/diagnosis"
	"shardway/node/control"
)

// Do performs an operator's action. Only the leader can perform it; other nodes forward it to the leader.
func (a *API) Do(ctx context.Context, action api.Action) error {
	ctx, cancel := context.WithTimeout(ctx, control.HandlerTimeout)
	defer cancel()
	if action.Hash != "" {
		action.Under = a.options.HashKeyID()
	}
	return a.options.Leader.Do(ctx, action)
}

// WhyNoLeader returns why there is no leader, as far as this node can tell, and a remedy.
func (a *API) WhyNoLeader() string {
	if f, ok := a.options.Findings().first(diagnosis.NoQuorum, diagnosis.DiskStalled, diagnosis.NoPeers, diagnosis.Bootstrapping); ok {
		return f.Text + "; " + f.Remedy
	}
	return "an election is in progress, or this node is isolated; try again in a moment"
}
