package membership

import (
	"context"
	"slices"
	"time"

	"shardway/node/gossip"
)

// aloneInterval is the interval between two checks of the join addresses. They may be host names,
// whose addresses can change.
const aloneInterval = time.Second

// runAlone bootstraps a cluster of one as soon as all join addresses are addresses of this node,
// unless gossip shows a member of a cluster; this cluster then adds the node. It returns once the
// node belongs to a cluster.
func (b *Bootstrapper) runAlone(ctx context.Context) {
	ticker := time.NewTicker(aloneInterval)
	defer ticker.Stop()
	loggedReason := ""
	for !b.BelongsToCluster() {
		reason := b.options.JoinsOnlyItself(ctx) // why this node must join other nodes; nil means that there are none
		if ctx.Err() != nil {
			return
		}
		if reason != nil && reason.Error() != loggedReason {
			loggedReason = reason.Error()
			b.options.Log.Info().Err(reason).Msg("joining existing cluster")
		}
		if reason == nil && !b.seesCluster() && b.foundAlone(ctx) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// foundAlone bootstraps the cluster and campaigns. It stops the node if that fails. It returns false if the
// caller must try again.
func (b *Bootstrapper) foundAlone(ctx context.Context) (isDone bool) {
	bootstrapped, err := b.bootstrapAlone(ctx)
	if err != nil {
		if ctx.Err() == nil {
			b.options.OnFailure(err)
		}
		return true
	}
	if bootstrapped {
		b.campaign()
	}
	return bootstrapped
}

// bootstrapAlone bootstraps the cluster unless the node belongs to one by now, or has given its
// promise to another node.
func (b *Bootstrapper) bootstrapAlone(ctx context.Context) (bootstrapped bool, err error) {
	err = b.withLock(ctx, func() error {
		current, getErr := b.currentPromise()
		if getErr != nil || current.node != "" || b.BelongsToCluster() {
			return getErr
		}
		bootstrapped = true
		return b.options.Raft.Bootstrap()
	})
	return bootstrapped, err
}

// seesCluster reports whether gossip shows a member of a cluster, alive or not.
func (b *Bootstrapper) seesCluster() bool {
	return slices.ContainsFunc(b.options.Gossip.Members(), func(member gossip.Member) bool { return member.Tags.Cluster != "" })
}
