package node

import (
	"context"
	"time"

	"shardway/ack"
	"shardway/node/lineage"
)

// persistEvery is the pause before Raft is asked again for what it refused.
const persistEvery = 50 * time.Millisecond

// issueBarrier waits in the background until all that earlier leaders committed
// is applied here, and makes the cluster if it has none yet.
//
// Raft takes neither while its first write of the term is under way, which on a
// slow disk takes longer than it lets one wait: both are tried again as long as
// this leadership lasts, for a lone voter has nobody to hand it over to. started
// stays that of the first try, and is a sound first Q: this node led the term
// before it, and the barrier that a quorum took was put into the log after it, so
// whoever is elected next is so by the vote of one that voted after it.
func (l *leading) issueBarrier(ctx context.Context, started time.Duration) {
	l.n.asks.Go(func() {
		if !l.persist(ctx, "barrier", l.raft.Barrier) || !l.persist(ctx, "birth", l.birth(lineage.New())) {
			return
		}
		l.n.watchCluster(l.n.fsm.state.Load()) // at once: others are added in its name
		select {
		case l.messages <- ack.BarrierApplied{Started: started}:
		case <-l.done:
		case <-ctx.Done():
		}
	})
}

// birth returns what makes the cluster of the given id, unless there is one.
func (l *leading) birth(cluster string) func() error {
	entry := ack.EncodeBirth(cluster, l.n.o.Shards, l.n.o.Timing)
	return func() error {
		if l.n.fsm.state.Load().Born() {
			return nil
		}
		return l.raft.Apply(entry)
	}
}

// persist has Raft do something that may be done twice, and asks again until it
// has, or this leadership is over: then it returns false.
func (l *leading) persist(ctx context.Context, what string, f func() error) bool {
	for tries := 1; ; tries++ {
		err := f()
		if err == nil {
			if tries > 1 {
				l.log.Info().Str("entry", what).Int("tries", tries).Msg("entry taken by raft after all")
			}
			return true
		}
		if tries == 1 {
			l.log.Warn().Err(err).Str("entry", what).Msg("entry not taken by raft yet: the disk is slow, or this leadership is over")
		}
		again := time.NewTimer(persistEvery)
		select {
		case <-again.C:
			if l.leads() {
				continue
			}
		case <-l.done:
		case <-ctx.Done():
		}
		again.Stop()
		return false
	}
}
