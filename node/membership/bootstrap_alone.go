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
	t := time.NewTicker(aloneInterval)
	defer t.Stop()
	lastReason := ""
	for !b.BelongsToCluster() {
		switch err := b.o.JoinsOnlyItself(ctx); {
		case ctx.Err() != nil:
			return
		case err != nil && err.Error() != lastReason:
			lastReason = err.Error()
			b.o.Log.Info().Err(err).Msg("joining existing cluster")
		case err == nil && !b.seesCluster():
			founded, err := b.bootstrapAlone(ctx)
			if err != nil && ctx.Err() == nil {
				b.o.Fail(err)
			}
			if founded && err == nil {
				b.campaign()
			}
			if founded || err != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// bootstrapAlone bootstraps the cluster unless the node belongs to one by now, or has given its
// promise to another node.
func (b *Bootstrapper) bootstrapAlone(ctx context.Context) (founded bool, err error) {
	err = b.withLock(ctx, func() error {
		p, getErr := b.currentPromise()
		if getErr != nil || p.to != "" || b.BelongsToCluster() {
			return getErr
		}
		founded = true
		return b.o.Raft.Bootstrap()
	})
	return founded, err
}

// seesCluster reports whether gossip shows a member of a cluster, alive or not.
func (b *Bootstrapper) seesCluster() bool {
	return slices.ContainsFunc(b.o.Gossip.Members(), func(m gossip.Member) bool { return m.Tags.Cluster != "" })
}
