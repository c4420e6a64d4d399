package node

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"shardway/node/gossip"
	"shardway/peer"
)

const (
	pollEvery    = 200 * time.Millisecond
	handoverLook = 10 * time.Millisecond
	goodbyeWait  = 250 * time.Millisecond
	raftStop     = 3 * time.Second
)

// Run starts the node and returns when it has stopped. The end of ctx means that
// it hands its shards over, finishes and leaves; an error stops it at once.
func (n *Node) Run(ctx context.Context) error {
	n.started = time.Now()
	s := &stack{log: n.log}
	defer s.unwind()
	base := context.WithoutCancel(ctx)
	s.push("data directory", func() {
		if err := n.o.Dir.Close(); err != nil {
			n.log.Warn().Err(err).Msg("data directory not closed")
		}
	})
	if n.o.Self != nil {
		s.push("own socket", func() { _ = n.o.Self.Close() }) // if it was not served: as long as the directory is ours
	}
	s.spawn(base, "known disks", n.persistDiskRecords)
	if n.appWatch != nil {
		s.spawn(base, "app instance", n.appWatch.stored.run)
	}
	s.spawn(base, "pulse", n.pulse.Run)
	if n.allowance != nil {
		s.spawn(base, "app allowance", n.allowance.value.run)
	}
	n.awaitApp(base)
	if err := n.startMembership(base, s); err != nil {
		return err
	}
	haltAgent := n.startProtocol(base, s)
	n.proxy.Expect(n.o.App) // ctx may have ended: who waits there is answered all the same
	s.spawn(base, "app traffic", n.serveApp)
	s.spawn(base, "reach", n.abortToUnreachable)
	if n.o.Self != nil {
		s.spawn(base, "own requests", n.serveSelf)
	}
	close(n.ready)
	n.log.Info().Uint64("boot", n.o.Dir.Boot()).Str("listen", n.o.App.Addr().String()).
		Str("peer", n.o.Peer.Addr().String()).Str("gossip", n.gossip.Addr().String()).Msg("node started")

	err := n.wait(ctx)
	if err == nil {
		n.ending.Store(true)
		err = n.leaveOrFail(base)
	}
	n.stopping.Store(true)
	if err != nil {
		// As if it were killed: other nodes shall find nobody, not a node that cuts
		// what they forward to it again. The line is when: what is left to end may
		// take seconds, and whoever looks for lost requests goes by it.
		n.log.Warn().Msg("node failed, connections closed")
		at, cancel := context.WithCancel(base)
		cancel()
		if n.o.Overdue != nil {
			// But who finds nobody takes the shards as soon as the lease has run out,
			// and an app in this process ends with its requests and hooks, or by Overdue.
			_ = n.shutProxy(at)
			haltAgent()
		}
		_ = n.o.Peer.Close()
		_ = n.shutProxy(at) // at once: what runs is cut
	}
	return err
}

// startMembership starts gossip, Raft and the peer port.
func (n *Node) startMembership(ctx context.Context, s *stack) error {
	if err := n.gossip.Listen(ctx); err != nil {
		return err
	}
	if err := n.openRaft(); err != nil {
		at, cancel := context.WithCancel(ctx)
		cancel()
		_ = n.gossip.Run(at) // which ends what Listen began
		return err
	}
	s.push("raft requests", n.asks.Wait)
	s.push("raft", func() { n.stopRaft(ctx) })
	s.spawn(ctx, "gossip", func(ctx context.Context) {
		if err := n.gossip.Run(ctx); err != nil {
			n.log.Warn().Err(err).Msg("gossip did not stop cleanly")
		}
	})
	n.updateDirectory()
	s.spawn(ctx, "directory", n.keepDirectory)
	running, cancel := context.WithCancel(ctx)
	n.suspects.ctx = running
	n.poison.ctx = running
	s.push("redials", func() {
		cancel()
		n.suspects.wait()
		n.poison.wg.Wait()
	})
	n.port.Handle(peer.Raft, n.stream.Handle)
	n.port.Handle(peer.Heartbeat, n.serveHeartbeats)
	n.port.Handle(peer.Control, n.serveControl)
	n.port.Handle(peer.Forward, func(ctx context.Context, c *peer.Conn) { n.proxy.ServePeer(ctx, c, c.Node()) })
	n.port.Handle(peer.Trunk, n.serveRequestSession)
	n.port.Handle(peer.Legs, n.serveWebSocketSession)
	s.push("trunks", func() {
		n.router.requestStreams.outgoing.Close()
		n.router.webSocketStreams.outgoing.Close()
	})
	s.spawn(ctx, "peer port", n.servePeers)
	s.push("forwarded requests", n.partPeers) // before their streams are closed
	return nil
}

// startProtocol starts what needs Raft.
func (n *Node) startProtocol(ctx context.Context, s *stack) (haltAgent func()) {
	s.spawn(ctx, "link", n.link.run)
	haltAgent = s.spawn(ctx, "agent", n.agent.run)
	if n.agent.hooking != nil {
		s.spawn(ctx, "releases", n.bringReleases)
	}
	if n.liveness() != nil {
		s.spawn(ctx, "app liveness", n.keepAppAlive)
	}
	if n.health != nil {
		s.spawn(ctx, "app health", n.health.run)
	}
	s.spawn(ctx, "leadership", n.lead)
	s.spawn(ctx, "founding", n.founder.Run)
	s.spawn(ctx, "twin", n.twin.Run)
	s.spawn(ctx, "acquaintance", n.greetVoters)
	s.spawn(ctx, "addresses", n.readdress)
	s.spawn(ctx, "watch", n.watch.run)
	return haltAgent
}

// keepDirectory keeps the addresses of the nodes, and the cluster's id once the
// log tells it.
func (n *Node) keepDirectory(ctx context.Context) {
	t := n.pulse.Every(pollEvery)
	defer t.Stop()
	var said uint64 // what was said of the timing that this entry set
	observer := &memberObserver{ring: n.events, onEvent: n.logMemberEvent}
	for {
		n.recordLeader()
		n.observeMembers(observer)
		select {
		case <-ctx.Done():
			return
		case <-n.gossip.Changed():
			n.updateDirectory()
		case <-t.C:
			n.noteServers()
			n.adoptCluster(n.fsm.state.Load())
			n.keepLevel(n.fsm.state.Load())
			said = n.compareTiming(said)
		}
	}
}

// stopRaft waits for Raft to end, but not for a write that hangs.
func (n *Node) stopRaft(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, raftStop)
	defer cancel()
	if err := n.raft.Shutdown(ctx); err != nil {
		n.log.Warn().Err(err).Msg("raft did not stop cleanly")
	}
}

// lead runs one leadership after the other.
func (n *Node) lead(ctx context.Context) {
	t := n.pulse.Every(pollEvery)
	defer t.Stop()
	for {
		n.recordLeader()
		term, leads := n.raft.Leadership() // at once: a term of its own is what a leadership is
		switch {
		case ctx.Err() != nil:
			return
		case leads:
			n.leadIn(ctx, term)
			notify(n.agent.wake) // another leader is to be heard by at once
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-n.raft.Changed():
			notify(n.agent.wake)
		case <-t.C:
		}
	}
}

// leadIn leads until the term is over or ctx ends.
func (n *Node) leadIn(ctx context.Context, term uint64) {
	l := newLeading(n, term)
	n.metrics.elections.Inc()
	l.log.Info().Msg("became leader")
	n.leading.Store(l.leadership)
	n.suspects.again() //nolint:contextcheck // outlives this leadership
	notify(n.agent.wake)
	l.run(ctx)
	n.leading.Store(nil)
	l.log.Info().Msg("leadership ended")
}

// campaign makes a voter stand for election at once when its leader's process is
// gone, in the order of the voters' ids, so that they do not split the vote. Who
// finds at its turn that one before it stands, gives that one as long again: it
// may lack entries that a later one has, and then nobody can elect it.
func (n *Node) campaign(leader string) {
	rank := n.raft.Rank(leader)
	if rank < 0 || n.led(leader) {
		return
	}
	term := n.raft.Term()
	time.AfterFunc(time.Duration(rank)*campaignStagger, func() {
		if n.raft.Term() == term {
			n.stand(leader)
			return
		}
		time.AfterFunc(campaignStagger, func() { n.stand(leader) })
	})
}

// led reports that somebody leads who is not the one that is gone.
func (n *Node) led(gone string) bool {
	l := n.raft.Leader()
	return l != "" && l != gone
}

// stand stands for election unless somebody has won it.
func (n *Node) stand(gone string) {
	term := n.raft.Term()
	if n.led(gone) || n.stopping.Load() {
		return
	}
	n.log.Info().Str("leader", gone).Msg("leader process stopped, starting campaign")
	_ = n.standFor(causeEvidence, term) // that says it
}

// What makes a voter stand for election before Raft's timeout, for metrics.
const (
	causeEvidence = "evidence" // the leader's process is gone
	causeMissed   = "missed"   // most voters miss the leader
)

// standFor stands for election against the leader of a term.
func (n *Node) standFor(cause string, term uint64) error {
	err := n.raft.CampaignIn(term)
	if err != nil {
		n.log.Debug().Err(err).Msg("campaign failed")
		return err
	}
	n.metrics.campaigns.WithLabelValues(cause).Inc()
	return nil
}

// campaignStagger is what one election takes, on a slow disk too: 10 ms as a rule,
// but each side syncs three times. Two that stand in one term split the vote, which
// costs an election timeout and more.
const campaignStagger = 250 * time.Millisecond

// leaveOrFail leaves, unless something fails meanwhile: a node without Raft learns
// of no map any more, and its clients would wait for shards that others serve.
func (n *Node) leaveOrFail(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case err := <-n.failed:
			stop(n.condemned(err))
		case <-ctx.Done():
		}
	})
	if n.o.HoldGrace > 0 {
		n.hold(ctx)
	} else {
		n.leave(ctx)
	}
	stop(nil)
	wg.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	select {
	case err := <-n.failed:
		return n.condemned(err)
	default:
		return nil
	}
}

// leave hands the shards over, finishes what runs, hands leadership over and
// says goodbye, all within ShutdownTimeout. If live ends before, the node has failed:
// it says no goodbye, like a process that is killed.
func (n *Node) leave(live context.Context) {
	ctx, cancel := context.WithTimeout(live, n.o.ShutdownTimeout)
	defer cancel()
	began := time.Now()
	n.log.Info().Msg("draining")
	n.agent.leaving.Store(true)
	notify(n.agent.wake)
	n.proxy.SetDraining(true)
	n.inTime(ctx, began, func(ctx context.Context) { n.until(ctx, n.handedOver) })
	n.lameDuck(ctx, began)
	if live.Err() != nil {
		return
	}
	n.inTime(ctx, began, func(ctx context.Context) {
		if err := n.shutProxy(ctx); err != nil {
			n.log.Warn().Err(err).Msg("in-flight requests aborted")
		}
	})
	if live.Err() != nil {
		return
	}
	n.abdicate(ctx)
	n.agent.goodbye.Store(true)
	said := n.agent.lastAnswer.Load()
	notify(n.agent.wake)
	saying, stop := context.WithTimeout(ctx, n.parting())
	n.until(saying, func() bool { return n.agent.stopped.Load() && n.agent.lastAnswer.Load() > said })
	stop()
	gossiping, stop := context.WithDeadline(ctx, began.Add(n.o.ShutdownTimeout-n.leaveTime()/2))
	if err := n.gossip.Leave(gossiping); err != nil {
		n.log.Debug().Err(err).Msg("gossip leave timed out")
	}
	stop()
	// Last: a leader adds whom gossip shows.
	n.leaveRaft(ctx)
}

// parting is how long goodbye may take: what nobody has taken the app releases before it.
func (n *Node) parting() time.Duration {
	if !n.fsm.state.Load().Committed().Has(n.self) {
		return goodbyeWait
	}
	return goodbyeWait + n.releaseTime()
}

// leaveTime is the part of ShutdownTimeout that leave reserves for leaving gossip and Raft, half
// of it for each: a tenth of what the handover of shards does not need, and up to 2 s. Without it,
// a node whose clients stay connected until the timeout stays a voter.
func (n *Node) leaveTime() time.Duration {
	spare := n.o.ShutdownTimeout - n.o.Pace.DrainTimeout - n.releaseTime()
	return min(2*time.Second, max(spare, 0)/10)
}

// inTime does what comes before goodbye and may last, in what ShutdownTimeout leaves for it.
func (n *Node) inTime(ctx context.Context, began time.Time, do func(context.Context)) {
	ctx, stop := context.WithDeadline(ctx, began.Add(max(n.o.ShutdownTimeout-n.parting()-n.leaveTime(), 0)))
	defer stop()
	do(ctx)
}

// abdicate gives leadership to somebody else, if this node has it.
func (n *Node) abdicate(ctx context.Context) {
	if !n.raft.IsLeader() {
		return
	}
	if err := n.transfer(ctx); err != nil {
		n.log.Debug().Err(err).Msg("leadership transfer failed")
	}
	waiting, stop := context.WithTimeout(ctx, time.Second)
	n.until(waiting, func() bool { l := n.raft.Leader(); return l != "" && l != string(n.self) })
	stop()
}

// handedOver reports that nothing is left to wait for: the map is without this
// node, or stays because nobody else is left, or nobody leads.
func (n *Node) handedOver() bool {
	s := n.router.state.Load()
	return !s.Committed().Has(n.self) && !s.Last().Has(n.self) || n.mapStays() != ""
}

// isLastNode reports whether gossip contains no other node.
func (n *Node) isLastNode() bool {
	return !slices.ContainsFunc(n.gossip.Members(), func(m gossip.Member) bool {
		return m.Node && m.ID != string(n.self) && m.Status == gossip.Alive
	})
}

// until looks for a condition until it holds or ctx ends.
func (n *Node) until(ctx context.Context, cond func() bool) {
	t := time.NewTicker(handoverLook)
	defer t.Stop()
	for !cond() {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// Started is closed once the node serves.
func (n *Node) Started() <-chan struct{} { return n.ready }
