package node

import (
	"context"

	"shardway/ack"
)

// issueBarrier waits in the background until all that earlier leaders committed
// is applied here, and makes the cluster if it has none yet. Raft takes neither while
// its first write of the term is under way, which on a slow disk takes longer than it
// lets one wait: the turn tries again as long as this leadership lasts.
func (l *leading) issueBarrier(ctx context.Context, try int) {
	l.n.asks.Go(func() {
		result, what, err := ack.Message(ack.BarrierApplied{}), "barrier", l.raft.Barrier()
		if err == nil {
			what, err = "birth", l.birth()
		}
		switch {
		case err != nil:
			result = ack.BarrierFailed{}
			if try == 1 {
				l.log.Warn().Err(err).Str("entry", what).Str("cause", "the disk is slow, or the leadership ended").Msg("raft entry not accepted yet")
			}
		case try > 1:
			l.log.Info().Int("tries", try).Msg("raft accepted barrier after retries")
		}
		if err == nil {
			l.n.adoptCluster(l.n.fsm.state.Load()) // at once: others are added in its name
			l.ready.Store(true)
		}
		select {
		case l.messages <- result:
		case <-l.done:
		case <-ctx.Done():
		}
	})
}

// birth makes the cluster, unless there is one. It may be done twice: the id stays.
func (l *leading) birth() error {
	if l.n.fsm.state.Load().Bootstrapped() {
		return nil
	}
	return l.raft.Apply(ack.EncodeBootstrap(l.cluster, l.n.o.Shards, l.n.o.Timing))
}
