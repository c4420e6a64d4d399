package adminapi

import (
	"context"

	"shardway/admin/api"
	"shardway/node/control"
	"shardway/node/leaderloop"
)

// UpgradeStatus returns the level in force, the next level, and the nodes that do not support the next
// level yet. If the leader does not respond, the result contains only the level in force, from the log of
// this node.
func (a *API) UpgradeStatus(ctx context.Context) api.UpgradeState {
	ctx, cancel := context.WithTimeout(ctx, leaderloop.ViewTimeout)
	defer cancel()
	if state, err := a.options.Leader.Upgrade(ctx, false, ""); err == nil {
		return state
	}
	inForce := uint8(a.options.View.State().FormatVersion())
	return api.UpgradeState{CurrentVersion: inForce, Next: inForce, Nodes: []api.NodeUpgrade{}}
}

// FinalizeUpgrade puts the next level into force. Only the leader can do that; other nodes forward the request to
// the leader.
func (a *API) FinalizeUpgrade(ctx context.Context, requester string) (api.UpgradeState, error) {
	ctx, cancel := context.WithTimeout(ctx, control.HandlerTimeout)
	defer cancel()
	return a.options.Leader.Upgrade(ctx, true, requester)
}
