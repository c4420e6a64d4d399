package node

import (
	"context"
	"fmt"

	"shardway/admin/api"
	"shardway/node/control"
)

// Plan returns the moves that the next shard map would contain. Only the leader can compute them, so
// another node asks the leader.
func (n *Node) Plan(ctx context.Context) (api.Plan, error) {
	ctx, cancel := context.WithTimeout(ctx, control.HandlerTimeout)
	defer cancel()
	if l := n.leadership(); l != nil {
		return l.Plan(ctx)
	}
	leader := n.view.Leader()
	if leader == "" {
		return api.Plan{}, fmt.Errorf("%w: %s", api.ErrNoLeader, n.leaderless())
	}
	var p api.Plan
	err := n.client.CallLeader(ctx, leader, control.Request{Kind: control.Plan}, &p)
	return p, err
}
