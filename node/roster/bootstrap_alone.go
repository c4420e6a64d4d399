package roster

import (
	"context"
	"slices"
	"time"

	"shardway/node/gossip"
)

// foundAloneEvery is the time between two looks at the join addresses, which may be names.
const aloneInterval = time.Second

// foundAlone founds a cluster of one as soon as every join address is certainly the node's
// own, unless gossip shows a member of a cluster: then the node waits to be added to that one.
// It returns once the node belongs to a cluster.
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
			b.o.Log.Info().Err(err).Msg("no cluster founded: joining others")
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

// bootstrapAlone founds the cluster unless the node belongs to one by now, or has promised
// another node to let it found one.
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

// seesCluster reports that gossip shows a member of a cluster, whether it is alive or not.
func (b *Bootstrapper) seesCluster() bool {
	return slices.ContainsFunc(b.o.Gossip.Members(), func(m gossip.Member) bool { return m.Tags.Cluster != "" })
}
