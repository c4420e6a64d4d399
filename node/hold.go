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
	holdSaying = 3 * time.Second
	// holdLinger is how long it then stays a voter at most, where the others need one, and
	// pairLinger of two voters, of which each is needed always: for who is restarted with it.
	holdLinger = 3 * time.Second
	pairLinger = holdLinger / 10
	// holdClosing is how long what other nodes forward may take to be refused then.
	holdClosing = 2 * time.Second
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
	finishing, stop := context.WithDeadline(ctx, began.Add(max(n.o.ShutdownTimeout-parting-holdClosing, 0)))
	if err := n.proxy.Retire(finishing); err != nil && live.Err() == nil {
		n.log.Warn().Err(err).Msg("requests of connected clients aborted")
	}
	stop()
	if live.Err() != nil {
		return
	}
	n.abdicate(ctx)
	said := n.agent.answered.Load()
	n.agent.goodbye.Store(true)
	notify(n.agent.wake)
	saying, stop := context.WithTimeout(ctx, parting+holdSaying)
	n.until(saying, func() bool { return n.away(said) })
	stop()
	if n.away(said) { // else nobody writes anything down
		lingering, end := context.WithTimeout(ctx, n.lingers())
		n.until(lingering, func() bool { return !n.owes(lingering) && !n.needed() })
		end()
	}
	if live.Err() != nil {
		return
	}
	closing, stop := context.WithTimeout(ctx, holdClosing)
	defer stop()
	if err := n.shutProxy(closing); err != nil {
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
func (n *Node) away(said int64) bool {
	s := n.fsm.state.Load()
	a, _ := s.Restart(n.self)
	nobody := n.last() || !s.Committed().Has(n.self)
	return a.Boot == n.agent.boot.Load() || nobody && n.agent.parted.Load() && n.agent.answered.Load() > said
}

// owes reports that this node leads, and that the log is yet to be told of others that have
// said goodbye, too, and what they keep.
func (n *Node) owes(ctx context.Context) bool {
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
func (n *Node) needed() bool {
	voters, _ := n.servers()
	if !slices.Contains(voters, n.server) {
		return false
	}
	s := n.fsm.state.Load()
	here := 0
	for _, v := range voters {
		if id := nodeOf(v); id != string(n.self) && !s.Restarting(shardmap.NodeID(id)) {
			here++
		}
	}
	return here > 0 && here < len(voters)/2+1
}

// lingers returns for how long at most the node stays because it is needed.
func (n *Node) lingers() time.Duration {
	if voters, _ := n.servers(); len(voters) == 2 {
		return pairLinger
	}
	return holdLinger
}
