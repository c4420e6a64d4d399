package node

import (
	"context"
	"slices"
	"time"

	"shardway/ack/leader"
	"shardway/node/consensus"
	"shardway/shardmap"
)

const (
	// restartRecordTimeout is how long a node that restarts in place waits until the log contains its
	// restart, in addition to the time of its goodbye. A leader may have to be elected first.
	restartRecordTimeout = 3 * time.Second
	// voterLinger is the longest time that the node then continues to run as a voter, because the other
	// voters need it for a quorum.
	voterLinger = 3 * time.Second
	// pairVoterLinger is voterLinger in a cluster of two voters. Both are always needed for a quorum, so
	// the node only waits for the other voter to restart at the same time.
	pairVoterLinger = voterLinger / 10
	// closeTimeout bounds the time in which requests from other nodes are refused before the proxy closes.
	closeTimeout = 2 * time.Second
)

// hold stops the node for a restart in place: it keeps its shards, and their requests wait for its
// return. The steps are:
//
//   - The node reports that it drains, and serves its shards for other nodes until its own clients
//     are gone.
//   - It admits no more requests, and its app releases the shards.
//   - It sends a goodbye that announces its return.
//
// The node stays a member of Raft and gossip. All steps together take at most ShutdownTimeout. If
// live ends earlier, the node has failed.
func (n *Node) hold(live context.Context) {
	ctx, cancel := context.WithTimeout(live, n.o.ShutdownTimeout)
	defer cancel()
	began := time.Now()
	n.log.Info().Dur("grace", n.o.HoldGrace).Msg("restarting in place, shards wait")
	n.proxy.SetDraining(true)
	n.lameDuck(ctx, began)
	parting := n.o.Pace.DrainTimeout + n.releaseTime()
	requestCtx, stop := context.WithDeadline(ctx, began.Add(max(n.o.ShutdownTimeout-parting-closeTimeout, 0)))
	if err := n.proxy.DrainClients(requestCtx); err != nil && live.Err() == nil {
		n.log.Warn().Err(err).Msg("requests of connected clients aborted")
	}
	stop()
	if live.Err() != nil {
		return
	}
	n.giveUpLeadership(ctx)
	goodbyeAt := n.agent.lastAnswer.Load()
	n.agent.goodbye.Store(true)
	notify(n.agent.wake)
	recordCtx, stop := context.WithTimeout(ctx, parting+restartRecordTimeout)
	n.waitUntil(recordCtx, func() bool { return n.restartRecorded(goodbyeAt) })
	stop()
	if n.restartRecorded(goodbyeAt) { // otherwise the log cannot be written
		lingerCtx, end := context.WithTimeout(ctx, n.voterLingerTime())
		n.waitUntil(lingerCtx, func() bool { return !n.mustRecordRestarts(lingerCtx) && !n.neededForQuorum() })
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

// releaseTime returns how long the app may take to release the shards of this node.
func (n *Node) releaseTime() time.Duration {
	if n.o.Hooks == nil || n.o.Gateway {
		return 0
	}
	return n.o.ReleaseTimeout
}

// restartRecorded reports whether the log contains the restart of this node. If this node is the last
// one or owns no shards, there is nothing to record. Then it reports whether all requests have ended and
// the leader has responded after goodbyeAt, a value of agent.lastAnswer.
func (n *Node) restartRecorded(goodbyeAt int64) bool {
	s := n.fsm.state.Load()
	a, _ := s.Restart(n.self)
	nothingToRecord := n.view.IsLastNode() || !s.Committed().Has(n.self)
	return a.Boot == n.agent.boot.Load() || nothingToRecord && n.agent.stopped.Load() && n.agent.lastAnswer.Load() > goodbyeAt
}

// mustRecordRestarts reports whether this node leads, and the log does not contain yet the restarts of
// other nodes that have sent a goodbye, and the shards that these nodes keep.
func (n *Node) mustRecordRestarts(ctx context.Context) bool {
	l := n.leading.Load()
	if l == nil {
		return false
	}
	views, _ := l.View(ctx)
	s := n.fsm.state.Load()
	return slices.ContainsFunc(views, func(v leader.MemberView) bool {
		a, _ := s.Restart(v.Node)
		return v.Heartbeat.RestartWithin > 0 && a.Boot < v.Heartbeat.Boot && s.Committed().Has(v.Node)
	})
}

// neededForQuorum reports whether the voters that are not restarting would have no quorum without this
// node. That happens if several nodes restart at the same time, or if a node restarts before the previous
// one has returned. Without a quorum, no further restart can be recorded in the log. Then the next node
// could not keep its shards, and its app would have to discard their state.
func (n *Node) neededForQuorum() bool {
	voters, _ := n.view.Servers()
	if !slices.Contains(voters, n.server) {
		return false
	}
	s := n.fsm.state.Load()
	staying := 0
	for _, v := range voters {
		if id := consensus.NodeOf(v); id != string(n.self) && !s.Restarting(shardmap.NodeID(id)) {
			staying++
		}
	}
	return staying > 0 && staying < len(voters)/2+1
}

// voterLingerTime returns the longest time that this node stays because it is needed for a quorum.
func (n *Node) voterLingerTime() time.Duration {
	if voters, _ := n.view.Servers(); len(voters) == 2 {
		return pairVoterLinger
	}
	return voterLinger
}
