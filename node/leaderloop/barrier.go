package leaderloop

import (
	"context"

	"shardway/ack"
	"shardway/ack/leader"
)

// issueBarrier waits in the background until this node has applied all entries that earlier leaders have
// committed. Then it creates the cluster if there is none yet. Raft rejects both steps while its first
// write of the term is in progress, which can take longer than Raft's timeout on a slow disk. Then the
// leader.Driver requests another attempt, as long as this leadership lasts. attempt counts from 1.
func (l *Loop) issueBarrier(ctx context.Context, attempt int) {
	l.options.Background.Go(func() {
		result, step, err := leader.Message(leader.BarrierApplied{}), "barrier", l.raft.Barrier()
		if err == nil {
			step, err = "birth", l.bootstrapCluster()
		}
		switch {
		case err != nil:
			result = leader.BarrierFailed{}
			if attempt == 1 {
				l.Log.Warn().Err(err).Str("entry", step).Str("cause", "the disk is slow, or the leadership ended").Msg("raft entry not accepted yet")
			}
		case attempt > 1:
			l.Log.Info().Int("tries", attempt).Msg("raft accepted barrier after retries")
		}
		if err == nil {
			l.options.AdoptCluster(l.options.View.State()) // before ready: nodes are added to the cluster with this ID
			l.ready.Store(true)
		}
		select {
		case l.messages <- result:
		case <-l.loopEnded:
		case <-ctx.Done():
		}
	})
}

// bootstrapCluster creates the cluster, unless it exists: it appends the first entry with the cluster ID to the log.
// A second entry has no effect, because the cluster keeps its first ID.
func (l *Loop) bootstrapCluster() error {
	if l.options.View.State().Bootstrapped() {
		return nil
	}
	return l.raft.Apply(ack.EncodeBootstrap(l.newClusterID, l.options.Shards, l.options.Timing, l.options.Services...))
}
