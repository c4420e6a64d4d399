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

// runAlone bootstraps a cluster of one node as soon as all join addresses are addresses of this node.
// If gossip shows that a cluster exists, it waits until that cluster adds this node. It returns
// once the node belongs to a cluster.
func (b *Bootstrapper) runAlone(ctx context.Context) {
	ticker := time.NewTicker(aloneInterval)
	defer ticker.Stop()
	loggedReason := ""
	for !b.BelongsToCluster() {
		mustJoin := b.options.JoinsOnlyItself(ctx) // why other nodes can exist; nil means that all join addresses are its own
		if ctx.Err() != nil {
			return
		}
		if mustJoin != nil && mustJoin.Error() != loggedReason {
			loggedReason = mustJoin.Error()
			b.options.Log.Info().Err(mustJoin).Msg("joining existing cluster")
		}
		if mustJoin == nil && !b.seesCluster() && b.bootstrapAndCampaign(ctx) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// bootstrapAndCampaign bootstraps the cluster and starts an election. It stops the node if that fails. It
// returns false if the caller must try again.
func (b *Bootstrapper) bootstrapAndCampaign(ctx context.Context) (isDone bool) {
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

// bootstrapAlone bootstraps the cluster, unless the node already belongs to one, or has promised
// another node to join the cluster that this node bootstraps.
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
