package node

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"shardway/internal/chanutil"
	"shardway/node/control"
	"shardway/node/crashdetect"
	"shardway/node/eventlog"
	"shardway/node/leaderloop"
	"shardway/node/membership"
	"shardway/node/shutdown"
	"shardway/peer"
	"shardway/shardmap"
)

const (
	// pollEvery is the interval at which states without a notification are polled.
	pollEvery = 200 * time.Millisecond
	// raftStop bounds the wait for Raft and for the disk when the node stops.
	raftStop = 3 * time.Second
)

// Run starts the node and returns when it has stopped. When ctx ends, the node hands over its shards,
// waits for in-flight requests and leaves the cluster. An error stops it at once.
func (n *Node) Run(ctx context.Context) error {
	n.started = time.Now()
	s := &shutdown.Stack{Log: n.log}
	defer s.Unwind()
	runCtx := context.WithoutCancel(ctx) // the components must outlive ctx, whose end only starts the stop
	n.startLocal(runCtx, s)
	if err := n.startMembership(runCtx, s); err != nil {
		return err
	}
	stopAgent := n.startProtocol(runCtx, s)
	n.startRequests(runCtx, s)
	close(n.ready)
	n.log.Info().Uint64("boot", n.o.Dir.Boot()).Str("listen", n.o.App.Addr().String()).
		Str("peer", n.o.Peer.Addr().String()).Str("gossip", n.gossip.Addr().String()).Msg("node started")

	err := n.wait(ctx)
	if err == nil {
		n.stopRequested.Store(true)
		err = n.leaveOrFail(runCtx)
	}
	n.stopping.Store(true)
	if err != nil {
		n.closeConnsAfterFailure(runCtx, stopAgent)
	}
	return err
}

// startLocal starts the components that need no other node, and registers their stop functions in s.
func (n *Node) startLocal(ctx context.Context, s *shutdown.Stack) {
	s.Push("data directory", func() {
		if err := n.o.Dir.Close(); err != nil {
			n.log.Warn().Err(err).Msg("data directory not closed")
		}
	})
	if n.o.Self != nil {
		s.Push("own socket", func() { _ = n.o.Self.Close() }) // needed if it was never served; closed before the data directory is released
	}
	s.Spawn(ctx, "known disks", n.diskRecords.Run)
	if n.appWatch != nil {
		s.Spawn(ctx, "app instance", n.appWatch.stored.Run)
	}
	s.Spawn(ctx, "pulse", n.scheduler.Run)
	s.Spawn(ctx, "app allowance", n.writeLimit.Run)
	n.writeLimit.AwaitEarlier(ctx)
}

// startRequests starts the goroutines that serve clients, and registers their stop functions in s.
func (n *Node) startRequests(ctx context.Context, s *shutdown.Stack) {
	n.proxy.ExpectListener(n.o.App) // clients that already wait must get a response, even if the node must stop at once
	s.Spawn(ctx, "app traffic", n.serveApp)
	unreachableOwners := &crashdetect.UnreachableOwners{
		Port: n.port, Scheduler: &n.scheduler, Stalled: n.proxy.Stalled, HeardRecently: n.receivedRecently, Log: n.log,
		DeadAfter: func() time.Duration { return n.view.Timing().DeadAfter },
		Abort: func(node string) int {
			return n.proxy.CancelForwarded(func(_ shardmap.Shard, owner string) bool { return owner == node })
		},
	}
	s.Spawn(ctx, "reach", unreachableOwners.Run)
	if n.o.Self != nil {
		s.Spawn(ctx, "own requests", n.serveSelf)
	}
}

// closeConnsAfterFailure closes the peer port and the proxy of a node that has failed. The node ends as if it
// was killed: other nodes must find a closed port, not a node that aborts requests that they forward again.
func (n *Node) closeConnsAfterFailure(ctx context.Context, stopAgent func()) {
	// The time of this log line is the time to use when looking for lost requests, because the remaining
	// steps may take seconds.
	n.log.Warn().Msg("node failed, connections closed")
	endedCtx, cancel := context.WithCancel(ctx) // aborts running requests without waiting for them
	cancel()
	if isAppInProcess := n.o.Overdue != nil; isAppInProcess {
		// When the port is closed, other nodes take the shards as soon as the lease has expired. The app
		// must end its requests and hooks before that, or Overdue is called.
		_ = n.shutProxy(endedCtx)
		stopAgent()
	}
	_ = n.o.Peer.Close()
	_ = n.shutProxy(endedCtx)
}

// startMembership starts gossip, Raft and the peer port, and registers their stop functions in s.
func (n *Node) startMembership(ctx context.Context, s *shutdown.Stack) error {
	if err := n.gossip.Listen(ctx); err != nil {
		return err
	}
	if err := n.openRaft(); err != nil {
		endedCtx, cancel := context.WithCancel(ctx)
		cancel()
		_ = n.gossip.Run(endedCtx) // Run with an ended context closes what Listen has opened
		return err
	}
	s.Push("raft requests", n.background.Wait)
	s.Push("raft", func() { n.stopRaft(ctx) })
	s.Spawn(ctx, "gossip", func(ctx context.Context) {
		if err := n.gossip.Run(ctx); err != nil {
			n.log.Warn().Err(err).Msg("gossip did not stop cleanly")
		}
	})
	n.view.Update()
	s.Spawn(ctx, "directory", n.followMembership)
	n.startCrashDetection(ctx, s)
	n.registerPeerHandlers() //nolint:contextcheck // a check whether a peer has crashed outlives the stream of the peer
	s.Push("trunks", func() {
		n.router.RequestStreams.Outgoing.Close()
		n.router.WebSocketStreams.Outgoing.Close()
	})
	s.Spawn(ctx, "peer port", n.servePeers)
	s.Push("forwarded requests", func() {
		n.router.RequestStreams.Shutdown(func() { n.router.WebSocketStreams.Shutdown(n.proxy.ClosePeers) })
	}) // stopped before the streams are closed
	return nil
}

// startCrashDetection starts the detectors that redial nodes whose connections have closed, and registers
// their stop functions in s.
func (n *Node) startCrashDetection(ctx context.Context, s *shutdown.Stack) {
	redialCtx, cancel := context.WithCancel(ctx)
	n.crashDetector.Start(redialCtx)
	n.poisonDetector.Start(redialCtx)
	s.Push("redials", func() {
		cancel()
		n.crashDetector.Wait()
		n.poisonDetector.Wait()
	})
}

// registerPeerHandlers registers the handlers of the streams that other nodes open at the peer port.
func (n *Node) registerPeerHandlers() {
	n.port.Handle(peer.Raft, n.stream.Handle)
	n.port.Handle(peer.Heartbeat, n.leaderInbox.heartbeatServer().ServeStream)
	n.port.Handle(peer.Control, control.NewServer(n.handlers(), n.log).ServeStream)
	n.port.Handle(peer.Forward, func(ctx context.Context, c *peer.Conn) { n.proxy.ServePeer(ctx, c, c.Node()) })
	n.port.Handle(peer.RequestSession, n.router.RequestStreams.Handler(n.log, n.proxy.ServePeer))
	n.port.Handle(peer.WebSocketSession, n.router.WebSocketStreams.Handler(n.log, n.proxy.ServePeer))
}

// startProtocol starts the goroutines that need Raft, and registers their stop functions in s. stopAgent stops
// the agent and waits for it.
func (n *Node) startProtocol(ctx context.Context, s *shutdown.Stack) (stopAgent func()) {
	s.Spawn(ctx, "link", n.heartbeats.Run)
	stopAgent = s.Spawn(ctx, "agent", n.agent.run)
	if n.agent.hooks != nil {
		sender := &releaseSender{self: string(n.self), notes: n.agent.hooks.releaseNotes, raft: n.raft, client: n.client, inbox: n.leaderInbox, log: n.log}
		s.Spawn(ctx, "releases", sender.run)
	}
	if n.writeLimit.HasHook() {
		s.Spawn(ctx, "app liveness", n.writeLimit.RunHook)
	}
	if n.health != nil {
		s.Spawn(ctx, "app health", n.health.Run)
	}
	s.Spawn(ctx, "leadership", n.lead)
	s.Spawn(ctx, "founding", n.bootstrapper.Run)
	s.Spawn(ctx, "twin", n.duplicates.Run)
	s.Spawn(ctx, "acquaintance", n.greeter.Run)
	s.Spawn(ctx, "addresses", n.addressChanges.Run)
	s.Spawn(ctx, "watch", n.monitor.Run)
	return stopAgent
}

// followMembership follows changes of the other nodes and of the cluster until ctx ends:
//
//   - It updates the addresses of the nodes.
//   - It records events of nodes.
//   - It adopts the cluster ID and the format version in the log, and checks the timing in the log.
func (n *Node) followMembership(ctx context.Context) {
	ticker := n.scheduler.NewTicker(pollEvery)
	defer ticker.Stop()
	timing := timingCheck{o: &n.o, isUpToDate: n.agent.IsUpToDate}
	watcher := eventlog.NewNodeWatcher(n.self, n.events, n.log)
	for {
		n.leaderTracker.Observe(n.raft.Term, n.view.Leader)
		watcher.Observe(n.gossip.Members(), n.raft.Configuration(), n.router.State())
		select {
		case <-ctx.Done():
			return
		case <-n.gossip.Changed():
			n.view.Update()
		case <-ticker.C:
			n.view.RecordServers()
			n.announcer.adoptFromLog(n.fsm.state.Load())
			n.announcer.keepLevel(n.fsm.state.Load())
			timing.compare(n.fsm.state.Load())
		}
	}
}

// receivedRecently reports whether data has just arrived on a mux session with the current process of a
// node. The mux layer sends pings on a session that is silent for longer and has streams.
func (n *Node) receivedRecently(node string) bool {
	isCurrentProcess := func(conn net.Conn) bool {
		c, ok := conn.(*peer.Conn)
		return ok && n.diskRecords.IsCurrentProcess(c.Peer())
	}
	return n.router.WebSocketStreams.Outgoing.ReceivedRecently(node, isCurrentProcess) ||
		n.router.RequestStreams.Outgoing.ReceivedRecently(node, isCurrentProcess)
}

// stopRaft stops Raft. It waits up to raftStop, because a write may hang.
func (n *Node) stopRaft(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, raftStop)
	defer cancel()
	if err := n.raft.Shutdown(ctx); err != nil {
		n.log.Warn().Err(err).Msg("raft did not stop cleanly")
	}
}

// lead runs the leader loop in each term that this node leads, until ctx ends.
func (n *Node) lead(ctx context.Context) {
	ticker := n.scheduler.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		n.leaderTracker.Observe(n.raft.Term, n.view.Leader)
		if ctx.Err() != nil {
			return
		}
		term, isLeader := n.raft.Leadership() // one call returns both, because a leadership belongs to one term
		if isLeader {
			n.leadTerm(ctx, term)
			chanutil.Notify(n.agent.heartbeatNow) // send a heartbeat to the next leader at once
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-n.raft.Changed():
			chanutil.Notify(n.agent.heartbeatNow)
		case <-ticker.C:
		}
	}
}

// leadTerm runs the leader loop until the term is over or ctx ends.
func (n *Node) leadTerm(ctx context.Context, term uint64) {
	loop := leaderloop.New(n.leaderOptions(), term)
	n.metrics.elections.Inc()
	loop.Log.Info().Msg("became leader")
	n.leadership.Store(loop.Leadership)
	n.crashDetector.Recheck() //nolint:contextcheck // outlives this leadership
	chanutil.Notify(n.agent.heartbeatNow)
	loop.Run(ctx)
	n.leadership.Store(nil)
	loop.Log.Info().Msg("leadership ended")
}

// leaderOptions returns the options of the leader loop.
func (n *Node) leaderOptions() leaderloop.Options {
	return leaderloop.Options{
		Self: n.self, Server: n.serverID, Shards: n.o.Shards, BootstrapExpect: n.o.BootstrapExpect, Timing: n.o.Timing, Pace: n.o.Pace, Keys: n.loadedKeys.get,
		View: n.view, Client: n.client, Clock: n.o.Clock, Scheduler: &n.scheduler, StateChanged: n.fsm.leaderHint, Background: &n.background,
		Reconciler: membership.ReconcilerOptions{
			Scheduler: &n.scheduler, Raft: n.raft, Server: n.serverID, Gossip: n.gossip, ProposeLevel: n.raft.Apply,
			State:     func() membership.State { return n.fsm.state.Load() },
			Identify:  n.identify,
			MaxVoters: n.o.MaxVoters, RemoveDeadAfter: n.o.RemoveDeadAfter, FinalizeAfter: n.o.FinalizeAfter,
		},
		OnRaftHeartbeats: func() { chanutil.Notify(n.agent.heartbeatIfNearlyDue) },
		IdleShards:       n.idleTracker.Answer, IdleInStage: n.idleTracker.AnswerStage, AdoptCluster: n.announcer.adoptFromLog,
		Events: n.events, Changes: n.changes, Log: n.log,
		Metrics: leaderloop.Metrics{Proposals: n.metrics.mapChanges, Exclusions: n.metrics.exclusions, Takeovers: n.metrics.takeovers, CommitSeconds: n.metrics.commits},
	}
}

// identify returns the identity of the process of a node, which may be this node.
func (n *Node) identify(ctx context.Context, node string) (membership.Process, error) {
	if node == string(n.self) {
		return n.process(), nil
	}
	return peerClient{n}.RequestIdentity(ctx, node)
}

// leaveOrFail leaves the cluster. If a component fails in this time, it stops early and returns the error of the
// failure. A node without Raft receives no more maps, so its clients would wait for shards that other
// nodes already serve.
func (n *Node) leaveOrFail(ctx context.Context) error {
	leaveCtx, endLeave := context.WithCancelCause(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case err := <-n.failed:
			endLeave(n.recordFatal(err))
		case <-leaveCtx.Done():
		}
	})
	if n.o.HoldGrace > 0 {
		n.shutdown.RestartInPlace(leaveCtx)
	} else {
		n.shutdown.Leave(leaveCtx)
	}
	endLeave(nil)
	watcher.Wait()
	if failure := context.Cause(leaveCtx); !errors.Is(failure, context.Canceled) {
		return failure
	}
	select {
	case err := <-n.failed: // failed at the end of the last step
		return n.recordFatal(err)
	default:
		return nil
	}
}

// Started returns a channel that is closed when the node serves requests.
func (n *Node) Started() <-chan struct{} { return n.ready }
