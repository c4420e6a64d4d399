package node

import (
	"context"
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

const (
	// holdSaying is how long a node that restarts in place waits until its log says that
	// it is absent, beyond what goodbye may take: a leader may have to be elected.
	restartRecordTimeout = 3 * time.Second
	// holdLinger is how long it then stays a voter at most, where the others need one, and
	// pairLinger of two voters, of which each is needed always: for who is restarted with it.
	voterLinger     = 3 * time.Second
	pairVoterLinger = voterLinger / 10
	// holdClosing is how long what other nodes forward may take to be refused then.
	closeTimeout = 2 * time.Second
)

// hold leaves with the shards: the node serves them for other nodes until its own
// clients are gone, then admits nothing, has its app release them, and says goodbye
// and that it comes back. It stays in Raft and gossip. All of that takes no longer than
// ShutdownTimeout. If live ends before, the node has failed.
func (n *Node) hold(live context.Context) {
	ctx, cancel := context.WithTimeout(live, n.o.ShutdownTimeout)
	defer cancel()
	began := time.Now()
	n.log.Info().Dur("grace", n.o.HoldGrace).Msg("restarting in place, shards wait")
	n.proxy.SetDraining(true)
	n.lameDuck(ctx, began)
	parting := n.o.Pace.DrainTimeout + n.releaseTime()
	requestCtx, stop := context.WithDeadline(ctx, began.Add(max(n.o.ShutdownTimeout-parting-closeTimeout, 0)))
	if err := n.proxy.Retire(requestCtx); err != nil && live.Err() == nil {
		n.log.Warn().Err(err).Msg("requests of connected clients aborted")
	}
	stop()
	if live.Err() != nil {
		return
	}
	n.abdicate(ctx)
	goodbyeAt := n.agent.answered.Load()
	n.agent.goodbye.Store(true)
	notify(n.agent.wake)
	recordCtx, stop := context.WithTimeout(ctx, parting+restartRecordTimeout)
	n.until(recordCtx, func() bool { return n.restartRecorded(goodbyeAt) })
	stop()
	if n.restartRecorded(goodbyeAt) { // else nobody writes anything down
		lingerCtx, end := context.WithTimeout(ctx, n.voterLingerTime())
		n.until(lingerCtx, func() bool { return !n.mustRecordRestarts(lingerCtx) && !n.neededForQuorum() })
		end()
	}
	if live.Err() != nil {
		return
	}
	closeCtx, stop := context.WithTimeout(ctx, closeTimeout)
	defer stop()
	if err := n.shutProxy(closeCtx); err != nil {
		n.log.Debug().Err(err).Msg("connections closed")
	}
}

// releaseTime is how long the app may take to release what this node owns.
func (n *Node) releaseTime() time.Duration {
	if n.o.Hooks == nil || n.o.Gateway {
		return 0
	}
	return n.o.ReleaseTimeout
}

// away reports that the log says that this node is absent; or that it has said goodbye,
// by an answer later than the given one, and there is nothing that could wait for it.
func (n *Node) restartRecorded(goodbyeAt int64) bool {
	s := n.fsm.state.Load()
	a, _ := s.Restart(n.self)
	unneeded := n.last() || !s.Committed().Has(n.self)
	return a.Boot == n.agent.boot.Load() || unneeded && n.agent.parted.Load() && n.agent.answered.Load() > goodbyeAt
}

// owes reports that this node leads, and that the log is yet to be told of others that have
// said goodbye, too, and what they keep.
func (n *Node) mustRecordRestarts(ctx context.Context) bool {
	l := n.leading.Load()
	if l == nil {
		return false
	}
	views, _ := l.view(ctx)
	s := n.fsm.state.Load()
	return slices.ContainsFunc(views, func(v ack.MemberView) bool {
		a, _ := s.Restart(v.Node)
		return v.Heartbeat.Back > 0 && a.Boot < v.Heartbeat.Boot && s.Committed().Has(v.Node)
	})
}

// needed reports that those who do not restart are no quorum without this node, because others
// restart, too: all at once, or one before the last is back. Nothing could be written down
// until then, not even what the next one keeps, whose app would have to forget all of it.
func (n *Node) neededForQuorum() bool {
	voters, _ := n.servers()
	if !slices.Contains(voters, n.server) {
		return false
	}
	s := n.fsm.state.Load()
	staying := 0
	for _, v := range voters {
		if id := nodeOf(v); id != string(n.self) && !s.Restarting(shardmap.NodeID(id)) {
			staying++
		}
	}
	return staying > 0 && staying < len(voters)/2+1
}

// lingers returns for how long at most the node stays because it is needed.
func (n *Node) voterLingerTime() time.Duration {
	if voters, _ := n.servers(); len(voters) == 2 {
		return pairVoterLinger
	}
	return voterLinger
}
