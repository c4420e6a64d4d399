package roster

import (
	"context"
	"slices"
	"time"

	"shardway/node/gossip"
)

// foundAloneEvery is the time between two looks at the join addresses, which may be names.
const foundAloneEvery = time.Second

// foundAlone founds a cluster of one as soon as every join address is certainly the node's
// own, unless gossip shows a member of a cluster: then the node waits to be added to that one.
// It returns once the node belongs to a cluster.
func (f *Founder) foundAlone(ctx context.Context) {
	t := time.NewTicker(foundAloneEvery)
	defer t.Stop()
	said := ""
	for !f.Belongs() {
		switch err := f.o.JoinsOnlyItself(ctx); {
		case ctx.Err() != nil:
			return
		case err != nil && err.Error() != said:
			said = err.Error()
			f.o.Log.Info().Err(err).Msg("no cluster founded: joining others")
		case err == nil && !f.seesCluster():
			founded, err := f.bootstrapAlone(ctx)
			if err != nil && ctx.Err() == nil {
				f.o.Fail(err)
			}
			if founded && err == nil {
				f.founded()
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
func (f *Founder) bootstrapAlone(ctx context.Context) (founded bool, err error) {
	err = f.decide(ctx, func() error {
		p, bad := f.promised()
		if bad != nil || p.to != "" || f.Belongs() {
			return bad
		}
		founded = true
		return f.o.Raft.Bootstrap()
	})
	return founded, err
}

// seesCluster reports that gossip shows a member of a cluster, whether it is alive or not.
func (f *Founder) seesCluster() bool {
	return slices.ContainsFunc(f.o.Gossip.Members(), func(m gossip.Member) bool { return m.Tags.Cluster != "" })
}
