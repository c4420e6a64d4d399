package leaderloop

import (
	"context"
	"fmt"

	"shardway/admin/api"
	"shardway/shardmap"
)

// checkMarkFailed returns an error if a node must not be marked as failed, because no other node could own its
// shards. A node that is already marked may be marked again, with a different reason.
func (l *Leadership) checkMarkFailed(ctx context.Context, node shardmap.NodeID) error {
	policy := l.options.View.State().Policy()
	voters, _ := l.options.View.Servers()
	if policy.MarkedFailed[node] || hasOtherOwner(node, l.awaitVoters(ctx, voters), policy) {
		return nil
	}
	return fmt.Errorf("%w: no other node can own the shards of node %q now: `shardway nodes` shows the states of the nodes", api.ErrNoActiveNodes, node)
}

// checkUncordon returns an error if a node is marked as failed and the leader receives no heartbeats from it. It
// allows the uncordon of a node that the cluster does not know: that node cannot send heartbeats, and remove refuses
// it, so the mark could not end otherwise.
func (l *Leadership) checkUncordon(ctx context.Context, node shardmap.NodeID) error {
	isMarked := l.options.View.State().Policy().MarkedFailed[node]
	if !isMarked || !l.options.View.HasNode(string(node)) {
		return nil
	}
	voters, _ := l.options.View.Servers()
	if member, _ := FindMember(l.awaitVoters(ctx, voters), string(node)); IsAlive(member) {
		return nil
	}
	return fmt.Errorf("%w: node %q is marked as failed and sends no heartbeats to the leader: start it or repair its connection first, or remove it with `shardway remove %s`", api.ErrNodeUnhealthy, node, node)
}
