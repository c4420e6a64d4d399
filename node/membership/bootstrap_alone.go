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
	lastReason := ""
	for !b.BelongsToCluster() {
		switch err := b.options.JoinsOnlyItself(ctx); {
		case ctx.Err() != nil:
			return
		case err != nil && err.Error() != lastReason:
			lastReason = err.Error()
			b.options.Log.Info().Err(err).Msg("joining existing cluster")
		case err == nil && !b.seesCluster():
			bootstrapped, err := b.bootstrapAlone(ctx)
			if err != nil && ctx.Err() == nil {
				b.options.OnFailure(err)
			}
			if bootstrapped && err == nil {
				b.campaign()
			}
			if bootstrapped || err != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
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
