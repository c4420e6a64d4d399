package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"shardway/ack/join"
	"shardway/admin"
	"shardway/internal/chanutil"
	"shardway/node/control"
	"shardway/node/eventlog"
	"shardway/node/identity"
	"shardway/node/leaderloop"
	"shardway/node/membership"
	"shardway/node/router"
	"shardway/node/shutdown"
	"shardway/peer"
)

const (
	// pollInterval is the interval at which states without a notification are polled.
	pollInterval = 200 * time.Millisecond
	// raftStopTimeout bounds the wait for Raft and for the disk when the node stops.
	raftStopTimeout = 3 * time.Second
)

// Run starts the node and returns when it has stopped. When ctx ends, the node hands over its shards,
// waits for in-flight requests and leaves the cluster. An error stops it immediately.
func (n *Node) Run(ctx context.Context) error {
	n.startedAt = time.Now()
	s := &shutdown.Stack{Log: n.log}
	defer s.Unwind()
	runCtx := context.WithoutCancel(ctx) // the components must outlive ctx, whose end only starts the stop
	if err := n.startProcesses(runCtx, s); err != nil {
		return err
	}
	n.startLocal(runCtx, s)
	if err := n.startMembership(runCtx, s); err != nil {
		return err
	}
	stopAgent := n.startProtocol(runCtx, s)
	n.startRequests(runCtx, s)
	close(n.ready)
	n.log.Info().Uint64("boot", n.options.Dir.Boot()).Str("listen", n.options.App.Addr().String()).
		Str("peer", n.options.Peer.Addr().String()).Str("gossip", n.gossip.Addr().String()).Msg("node started")

	err := n.waitForStop(ctx)
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
		if err := n.options.Dir.Close(); err != nil {
			n.log.Warn().Err(err).Msg("data directory not closed")
		}
	})
	if n.options.Self != nil {
		s.Push("local admin listener", func() { _ = n.options.Self.Close() }) // needed if it was never served; closed before the data directory is released
	}
	s.Spawn(ctx, "disk records", n.diskRecords.Run)
	for _, watch := range n.appWatches {
		if watch != nil {
			s.Spawn(ctx, "app instance", watch.Run)
		}
	}
	if n.instances != nil {
		s.Spawn(ctx, "free instance numbers", n.instances.Run)
	}
	s.Spawn(ctx, "webhook", n.webhook.Run) // stops after the components that record events
	s.Spawn(ctx, "scheduler", n.scheduler.Run)
	s.Spawn(ctx, "write limit", n.writeLimit.Run)
	n.writeLimit.AwaitEarlier(ctx)
}

// startRequests starts the goroutines that serve clients, and registers their stop functions in s.
func (n *Node) startRequests(ctx context.Context, s *shutdown.Stack) {
	n.proxy.ExpectListener(n.options.App) // clients that already wait must get a response, even if the node must stop at once
	s.Spawn(ctx, "app port", func(ctx context.Context) {
		if err := n.proxy.ServeClients(ctx, n.options.App); err != nil && ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
			n.failures.fail(fmt.Errorf("node: app listener: %w", err))
		}
	})
	s.Spawn(ctx, "unreachable owners", n.unreachable.Run)
	if n.options.Self != nil {
		s.Spawn(ctx, "local admin socket", func(ctx context.Context) {
			if err := admin.ServeLocal(ctx, n.options.Self, n.api, n.log); err != nil {
				n.log.Warn().Err(err).Str("effect", "`shardway drain --local` does not reach this node").Msg("local admin socket failed")
			}
		})
	}
}

// closeConnsAfterFailure closes the peer port and the proxy of a node that has failed. The node stops as if it had
// been killed: other nodes must find a closed port, not a node that aborts requests that they forward again.
func (n *Node) closeConnsAfterFailure(ctx context.Context, stopAgent func()) {
	// The time of this log line is the time to use when looking for lost requests, because the remaining
	// steps may take seconds.
	n.log.Warn().Msg("node failed, connections closed")
	endedCtx, cancel := context.WithCancel(ctx) // aborts running requests without waiting for them
	cancel()
	if isAppInProcess := n.options.Overdue != nil; isAppInProcess {
		// When the port is closed, other nodes take the shards as soon as the lease has expired. The app
		// must end its requests and hooks before that, or Overdue is called.
		_ = n.shutProxy(endedCtx)
		stopAgent()
	}
	if n.options.Processes != nil {
		n.options.Processes.Close() // before the port is closed, like the app in this process
	}
	_ = n.options.Peer.Close()
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
	s.Push("goroutines that wait for raft", n.background.Wait)
	s.Push("raft", func() {
		stopCtx, cancel := context.WithTimeout(ctx, raftStopTimeout) // because a write may hang
		defer cancel()
		if err := n.raft.Shutdown(stopCtx); err != nil {
			n.log.Warn().Err(err).Msg("raft did not stop cleanly")
		}
	})
	s.Spawn(ctx, "gossip", func(ctx context.Context) {
		if err := n.gossip.Run(ctx); err != nil {
			n.log.Warn().Err(err).Msg("gossip did not stop cleanly")
		}
	})
	n.view.Update()
	s.Spawn(ctx, "membership view", n.followMembership)
	n.startCrashDetection(ctx, s)
	n.registerPeerHandlers()
	s.Push("mux sessions", func() {
		n.router.RequestStreams.Outgoing.Close()
		n.router.WebSocketStreams.Outgoing.Close()
	})
	s.Spawn(ctx, "peer port", func(ctx context.Context) {
		if err := n.port.Serve(ctx, n.options.Peer); err != nil {
			n.failures.fail(fmt.Errorf("node: peer listener: %w", err))
		}
	})
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
	s.Push("crash detection", func() {
		cancel()
		n.crashDetector.Wait()
		n.poisonDetector.Wait()
	})
}

// registerPeerHandlers registers the handlers of the streams that other nodes open at the peer port.
func (n *Node) registerPeerHandlers() {
	n.port.Handle(peer.Raft, n.stream.Handle)
	n.port.Handle(peer.Heartbeat, n.leaderInbox.heartbeats.ServeStream)
	n.port.Handle(peer.Control, control.NewServer(n.handlers(), n.log).ServeStream)
	n.port.Handle(peer.Forward, func(ctx context.Context, c *peer.Conn) { n.proxy.ServePeer(ctx, c, c.Node()) })
	n.port.Handle(peer.RequestSession, n.router.RequestStreams.Handler(n.log, n.proxy.ServePeer))
	n.port.Handle(peer.WebSocketSession, n.router.WebSocketStreams.Handler(n.log, n.proxy.ServePeer))
}

// startProtocol starts the goroutines that need Raft, and registers their stop functions in s. stopAgent stops
// the agent and waits for it.
func (n *Node) startProtocol(ctx context.Context, s *shutdown.Stack) (stopAgent func()) {
	s.Spawn(ctx, "heartbeats", n.heartbeats.Run)
	stopAgent = s.Spawn(ctx, "agent", n.agent.run)
	if n.agent.hooks != nil {
		sender := &releaseSender{self: string(n.self), notes: n.agent.hooks.releaseNotes, raft: n.raft, client: n.client, inbox: n.leaderInbox, log: n.log}
		s.Spawn(ctx, "release notes", sender.run)
	}
	if n.writeLimit.HasHook() {
		s.Spawn(ctx, "write limit hook", n.writeLimit.RunHook)
	}
	if n.health != nil {
		s.Spawn(ctx, "app health", n.health.Run)
	}
	s.Spawn(ctx, "leadership", n.leaderRunner.run)
	s.Spawn(ctx, "bootstrap", n.bootstrapper.Run)
	s.Spawn(ctx, "duplicate detection", n.duplicates.Run)
	s.Spawn(ctx, "greetings", n.greeter.Run)
	s.Spawn(ctx, "address changes", n.addressChanges.Run)
	s.Spawn(ctx, "findings", n.monitor.Run)
	return stopAgent
}

// followMembership follows changes of the other nodes and of the cluster until ctx ends:
//
//   - It updates the addresses of the nodes.
//   - It records events of nodes, and steps of the join of this node.
//   - It adopts the cluster ID and the format version in the log, and checks the timing and the numbers of shards in
//     the log.
func (n *Node) followMembership(ctx context.Context) {
	ticker := n.scheduler.NewTicker(pollInterval)
	defer ticker.Stop()
	timing := timingCheck{options: &n.options, isUpToDate: n.agent.IsUpToDate, fail: n.failures.fail}
	watcher := eventlog.NewNodeWatcher(n.self, n.events, n.log)
	joins := eventlog.NewJoinWatcher(n.events)
	departures := n.newGossipDepartures()
	for {
		n.leaderTracker.Observe(n.raft.Term, n.view.Leader)
		members, servers := n.gossip.Members(), n.raft.Configuration()
		departures.observe(members)
		watcher.Observe(members, servers, n.router.State())
		joins.Observe(n.router.State().Joins())
		n.recordJoinSteps(members, servers)
		select {
		case <-ctx.Done():
			return
		case <-n.gossip.Changed():
			n.view.Update()
		case <-ticker.C:
			n.view.RecordServers()
			n.announcer.adoptFromLog(n.fsm.state.Load())
			n.announcer.checkShardsOnce(n.fsm.state.Load(), n.agent.IsUpToDate() && n.raft.Lag() == 0)
			n.announcer.storeLevel(n.fsm.state.Load())
			timing.compare(n.fsm.state.Load())
		}
	}
}

// receivedRecently reports whether data has just arrived on a mux session with the current process of a node. The
// mux layer sends pings on a session with streams that is silent for longer.
func receivedRecently(router *router.Router, records *identity.Records, node string) bool {
	isCurrentProcess := func(conn net.Conn) bool {
		c, ok := conn.(*peer.Conn)
		return ok && records.IsCurrentProcess(c.Peer())
	}
	return router.WebSocketStreams.Outgoing.ReceivedRecently(node, isCurrentProcess) ||
		router.RequestStreams.Outgoing.ReceivedRecently(node, isCurrentProcess)
}

// leaderOptions returns the options of the leader loop.
func (n *Node) leaderOptions() leaderloop.Options {
	return leaderloop.Options{
		Self: n.self, Server: n.serverID, Shards: n.options.Shards, Services: n.options.Services, Replicas: n.options.Replicas, SpreadZones: n.options.SpreadZones, BootstrapExpect: n.options.BootstrapExpect, Timing: n.options.Timing, Pace: n.options.Pace, Keys: n.loadedKeys.get,
		View: n.view, Client: n.client, Clock: n.options.Clock, Scheduler: &n.scheduler, StateChanged: n.fsm.wakeLeader, Background: &n.background,
		Reconciler: membership.ReconcilerOptions{
			Scheduler: &n.scheduler, Raft: n.raft, Server: n.serverID, Gossip: n.gossip, ProposeLevel: n.raft.Apply,
			State:       func() membership.State { return n.fsm.state.Load() },
			Joins:       join.Options{Manual: n.options.ManualJoins, Timeout: n.options.JoinTimeout, BootstrapExpect: n.options.BootstrapExpect},
			ProposeJoin: n.raft.Apply, NotifyJoin: n.notifyJoin, SnapshotIndex: n.raft.SnapshotIndex,
			Identify:  n.identities.of,
			MaxVoters: n.options.MaxVoters, RemoveDeadAfter: n.options.RemoveDeadAfter, FinalizeAfter: n.options.FinalizeAfter,
		},
		OnRaftHeartbeats: func() { chanutil.Notify(n.agent.heartbeatIfNearlyDue) },
		IdleShards:       n.idleTracker.Answer, IdleInStage: n.idleTracker.AnswerStage, AdoptCluster: n.announcer.adoptFromLog, CheckNode: n.unreachable.Suspect,
		Registry: n.fsm.registry,
		Events:   n.events, Changes: n.mapChanges, Log: n.log,
		Metrics: leaderloop.Metrics{Proposals: n.metrics.MapChanges, Exclusions: n.metrics.Exclusions, Takeovers: n.metrics.Takeovers, CommitSeconds: n.metrics.Commits},
	}
}

// leaveOrFail leaves the cluster. If a component fails in this time, it stops early and returns the error of the
// failure. A node without Raft receives no more maps, so its clients would wait for shards that other
// nodes already serve.
func (n *Node) leaveOrFail(ctx context.Context) error {
	leaveCtx, endLeave := context.WithCancelCause(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case err := <-n.failures.first:
			endLeave(n.failures.recordInDir(err))
		case <-leaveCtx.Done():
		}
	})
	if n.options.HoldGrace > 0 {
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
	case err := <-n.failures.first: // failed at the end of the last step
		return n.failures.recordInDir(err)
	default:
		return nil
	}
}

// Started returns a channel that is closed when the node serves requests.
func (n *Node) Started() <-chan struct{} { return n.ready }
