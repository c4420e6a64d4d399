package proxy

import (
	"context"
	"hash/maphash"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"shardway/internal/netpoll"
	"shardway/proxy/appsilence"
	"shardway/proxy/backoff"
	"shardway/proxy/buffer"
	"shardway/proxy/cause"
	"shardway/proxy/connpool"
	"shardway/proxy/connset"
	"shardway/proxy/eventloop"
	"shardway/proxy/h1"
	"shardway/proxy/inbound"
	"shardway/proxy/inflight"
	"shardway/proxy/listener"
	"shardway/proxy/loadstats"
	"shardway/proxy/metrics"
	"shardway/proxy/pathguard"
	"shardway/proxy/peerpath"
	"shardway/proxy/poison"
	"shardway/proxy/reqbody"
	"shardway/proxy/retry"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/proxy/sizehint"
	"shardway/proxy/wsession"
	"shardway/queue"
	"shardway/shardmap"
)

// Server is the proxy of one node. New creates it. ServeClients passes connections of clients to
// it, and ServePeer streams from other nodes. The node calls Wake after each change of the routing
// table. It calls CancelShards, CancelUpstream or CancelForwarded when requests must not continue.
// Server implements prometheus.Collector.
type Server struct {
	// Configuration. options and settings are set by New, and settings also by Apply.

	options   Options // its Settings are zero; see settings
	settings  atomic.Pointer[Settings]
	keyless   route.Route // route of requests without a key: the app of this node
	hookPath  pathguard.Guard
	explain   explainer
	keyPlacer keyPlacer
	// quarantine contains the keys whose requests are rejected; nil means none.
	quarantine atomic.Pointer[shardkey.Quarantine]
	// streamThreshold, maxHoldTime, parkAfter and parkSoon are the constants streamThreshold,
	// maxHoldTime, parkAfter and parkAfterReturn, except in tests.
	streamThreshold     int32
	maxHoldTime         time.Duration
	parkAfter, parkSoon atomic.Int64

	// Connections of clients, and streams from other nodes.

	conns          connset.Set[*client]
	loops          eventloop.Group
	clients        clientPool
	peerGoroutines sync.WaitGroup // counts relays of WebSockets that other nodes have forwarded
	stalledScratch []*client      // reused by Stalled
	// lingering limits the closed connections whose clients may still send data.
	lingering h1.Lingering

	// Connections to the app and to other nodes.

	upstreams upstreams
	dialer    dialer
	budget    retry.Budget
	crashes   poison.Recorder
	// largeResponses and nonResumable predict by path. largeResponses contains paths whose next
	// response will probably be large or slow. nonResumable contains paths whose WebSockets are
	// not resumable.
	largeResponses, nonResumable sizehint.Predictor

	// WebSockets and event streams.

	webSockets  webSockets
	streamQueue *queue.Queue    // event streams that wait for an upstream connection
	idleSockets netpoll.Watcher // sockets of parked WebSocket directions

	// Memory.

	buffers      h1.Buffers
	bodies       reqbody.Shared
	headerMemory buffer.Limit // memory of headers that have been read partly

	// Measurements.

	metrics    *metrics.Metrics
	load       loadstats.Collector
	appSilence appsilence.Detector
	panics     panicRecorder
	repairs    repairLog

	// Time.

	clock serverClock

	// State of the sweep. Only the sweeping goroutine uses it.

	lastMaintenance time.Duration // time of the last call of maintain, by the coarse clock
	peerPaths       peerpath.Detector
	sweptClients    []*client // clients of the current sweep

	// Shutdown.

	lifecycle lifecycle
}

// New returns a Server. It starts no goroutine.
func New(options Options) *Server {
	options = options.withDefaults()
	s := &Server{
		options: options, explain: options.Explain, metrics: metrics.New(), keyless: route.Route{Kind: route.Local}, hookPath: pathguard.New(options.HookPath),
		streamThreshold: streamThreshold, maxHoldTime: maxHoldTime,
	}
	s.options.Settings = Settings{}
	s.panics = panicRecorder{log: &s.options.Log, count: &s.metrics.Panics}
	s.keyPlacer = keyPlacer{cluster: options.Cluster, acceptsNewKeys: options.AcceptsNewKeys}
	s.settings.Store(options.Settings.withDefaults())
	s.clock.start()
	s.lifecycle.init(&s.clock.Clock)
	s.budget.Fill()
	s.load.Start(s.options.Shards)
	s.crashes.Report = s.options.PeerCrashed
	s.initConns()
	s.initBuffers()
	s.initQueues()
	s.initUpstreams()
	return s
}

// initConns initializes the state of client connections.
func (s *Server) initConns() {
	s.conns.Init(connset.Hooks[*client]{Tick: s.clock.tick, Sweep: s.sweep, MustSweepAll: s.mustSweepAll})
	s.loops.Log = s.options.Log
	s.parkAfter.Store(int64(parkAfter))
	s.parkSoon.Store(int64(parkAfterReturn))
	// A quarter of all connections may linger, but at least one and up to 1024.
	s.lingering.Max = min(1024, max(1, s.options.MaxConns/4))
}

// initBuffers initializes the pools of buffers.
func (s *Server) initBuffers() {
	s.bodies.BufferSize, s.bodies.Clock, s.bodies.Recover = s.options.BodyBuffer, &s.clock.Clock, s.panics.sendRecovering
	s.bodies.OnShed = func(bodies uint64) { s.metrics.ShedBodies.Add(bodies) }
	s.bodies.Buffers.SetMaxSize(s.options.BodyBuffer)
	if s.options.Disable.Splice {
		s.buffers.DisableSplice()
	}
}

// initQueues initializes the queues of event streams and WebSockets that wait for an upstream
// connection. Each client connection may have a place there.
func (s *Server) initQueues() {
	s.streamQueue = queue.New(queue.Options{Requests: s.options.MaxConns, Bytes: math.MaxInt64, Wait: s.options.QueueWait, CPUUsage: s.options.Queue.CPUUsage})
	s.webSockets.queue = queue.New(queue.Options{
		Requests: s.options.MaxConns, Bytes: math.MaxInt64, Wait: 2 * maxResumeWaits * s.options.ResumeTimeout,
		Batch: resumeBatch, Pace: resumeInterval, FixedRate: true,
	})
	s.webSockets.pacer = wsession.ReconnectPacer{
		TimeLimit: s.options.ResumeTimeout / 2, MeasureDelay: wsession.TimerDelay,
		OnLimitGrown: func() { s.upstreams.peers.Each((*connpool.Pool).DialForUpgrades) },
	}
	s.initRelays()
	s.webSockets.handovers.MeasureDelay = wsession.TimerDelay
}

// initUpstreams initializes the connections to the app and to other nodes, and the predictions about
// responses. The queues must be initialized before.
func (s *Server) initUpstreams() {
	s.dialer = dialer{
		cluster: s.options.Cluster, dialUpstream: s.options.DialUpstream, settings: &s.settings, buffers: &s.buffers,
		multiplexes: !s.options.Disable.Multiplexing,
	}
	poolOptions := connpool.Options{
		Clock: &s.clock.Clock, Pacer: &s.webSockets.pacer,
		Queues: backoff.Queues{s.options.Queue, s.streamQueue, s.webSockets.queue},
	}
	var dialApp func(context.Context) (*connpool.Conn, error)
	switch {
	case s.options.Handler != nil:
		dialApp = s.newHandlerConn
	case s.options.DialUpstream != nil:
		dialApp = s.dialer.dialApp
	}
	s.upstreams.init(&s.options, poolOptions, &s.dialer, dialApp)
	s.peerPaths.ConnsInUse = s.eachConnToPeers
	seed := maphash.MakeSeed()
	s.largeResponses.SetSeed(seed)
	s.nonResumable.SetSeed(seed)
}

// ServeClients accepts connections from ln until ctx ends or Shutdown is called, and then closes
// ln. It returns after the last connection has been closed. When ctx ends, it aborts the
// connections. After Shutdown, requests in progress finish first. In both cases the error is nil.
// Otherwise it is the error of ln.
func (s *Server) ServeClients(ctx context.Context, ln net.Listener) error {
	if !s.lifecycle.listeners.Add(ln) {
		return ln.Close()
	}
	acceptor := listener.New(ln)
	connListener := newClientListener(ctx, s)
	s.loops.Open()
	defer s.loops.Close()
	defer connListener.watcher.Sockets.Close()
	stopAbort := context.AfterFunc(ctx, func() { s.closeWithin(ctx) })
	defer stopAbort()
	defer connListener.workers.Close() // must run after Remove, because connections that an open listener accepts would be reset
	defer s.lifecycle.listeners.Remove(ln)
	stopClose := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stopClose()
	freeResources := func() { s.evictIdle(drainIdleTimeout, math.MaxInt) }
	for {
		conn, err := acceptor.AcceptRetry(ctx, s.lifecycle.isStopping, s.options.Log, freeResources)
		if err != nil {
			isStopping := ctx.Err() != nil || s.lifecycle.isStopping()
			if isStopping {
				return nil
			}
			return err
		}
		connListener.accepted(conn)
	}
}

// closeWithin closes the connections whose context is ctx, which has ended. Connections that are
// accepted later check the context themselves.
func (s *Server) closeWithin(ctx context.Context) {
	s.conns.Each(func(c *client) {
		if c.life.ParentCtx == ctx {
			c.terminate(cause.Shutdown)
		}
	})
	s.conns.WakeParked(false, func(parked *connset.Parked) bool { return parked.Watcher.Ctx == ctx })
}

// ServePeer serves one stream of forwarded requests from the node ingress. It returns when the
// stream has ended, or when a resumable WebSocket has started on it. ctx aborts the stream. After
// the start of a WebSocket, the Server closes conn when the WebSocket has ended, and Shutdown waits
// for that.
func (s *Server) ServePeer(ctx context.Context, conn net.Conn, ingress string) {
	c := newClient(ctx, s, conn, ingress)
	stop := context.AfterFunc(ctx, func() { c.terminate(cause.Shutdown) })
	c.serveAll(&s.peerGoroutines, func() { stop() })
	if _, ok := conn.(connpool.MuxStream); ok {
		stop() // a WebSocket continues; its stream ends with its session, which the node owns
	}
}

// Wake makes waiting requests look up their route again. This includes requests that wait for a
// connection to a previous destination. The node calls it after each change of the routing table,
// with the generation of the new table.
func (s *Server) Wake(generation uint64) {
	s.options.Queue.Wake(generation)
	s.streamQueue.Wake(generation)
	s.webSockets.queue.Wake(generation)
	if s.webSockets.running.Load() > 0 {
		s.conns.SweepSoon()
	}
	s.upstreams.recheckWaiters(s.options.Cluster.Table())
}

// CancelShards cancels the runs on the local app for the shards for which match returns true, and
// returns their number. A client whose response has not begun receives 502 shard-moved; other
// connections are aborted. reason is the label in the metrics.
func (s *Server) CancelShards(match func(shardmap.Shard) bool, reason string) int {
	n := s.cancelRuns(cause.DrainTimeout, func(current inflight.Run, _ string) bool {
		return current.Kind == route.Local && !current.Has(inflight.Keyless) && match(current.Shard)
	})
	s.metrics.CountAborted(reason, n)
	return n
}

// CancelUpstream cancels all runs on the local app, and returns their number. Requests that are
// safe to repeat are retried.
func (s *Server) CancelUpstream(reason string) int { return s.cancelLocal(cause.Lease, reason) }

// CancelForStop is CancelUpstream for a node that stops after the time limit for running requests.
// Requests that are not safe to repeat receive 502 shard-moved.
func (s *Server) CancelForStop(reason string) int { return s.cancelLocal(cause.Stopping, reason) }

// cancelLocal cancels all runs on the local app, and returns their number.
func (s *Server) cancelLocal(cancelCause cause.Cause, reason string) int {
	n := s.cancelRuns(cancelCause, func(current inflight.Run, _ string) bool { return current.Kind == route.Local })
	s.metrics.CountAborted(reason, n)
	return n
}

// CancelForwarded cancels requests that were forwarded to node for shard s if match returns true,
// and returns their number. Requests that are safe to repeat are retried; the others receive 502.
func (s *Server) CancelForwarded(match func(s shardmap.Shard, node string) bool) int {
	n := s.cancelRuns(cause.OwnerLost, func(current inflight.Run, node string) bool {
		return current.Kind == route.Remote && match(current.Shard, node)
	})
	s.metrics.CountAborted(cause.OwnerLost.String(), n)
	return n
}

// cancelRuns cancels each run for which match returns true, and returns the number of cancelled
// runs.
func (s *Server) cancelRuns(cancelCause cause.Cause, match func(current inflight.Run, node string) bool) int {
	n := 0
	s.conns.Visit(nil, func(all []*client) {
		var closes []inbound.Aborter
		for _, conn := range all {
			var cancelled bool
			if closes, cancelled = conn.slot.Cancel(cancelCause, match, closes); cancelled {
				n++
			}
		}
		inflight.CloseAll(closes)
	})
	return n
}

// UpstreamConnected reports whether a connection to the app is open at both ends, idle or in use.
// After the app process has ended, there is none.
func (s *Server) UpstreamConnected() bool {
	return s.upstreams.app != nil && s.upstreams.app.HasOpenConn()
}

// RenewUpstream closes the idle connections to the app. Connections in use are closed after their
// request.
func (s *Server) RenewUpstream() { s.upstreams.renewApp() }

// RenewPeers closes connections to other nodes as soon as they are idle, so that later requests use
// new connections. The node calls it when its certificate or its set of trusted authorities has
// changed.
func (s *Server) RenewPeers() { s.upstreams.peers.Renew() }

// RenewPeersWhere closes the idle connections to the nodes for which match returns true.
// Connections in use are closed after their request.
func (s *Server) RenewPeersWhere(match func(node string) bool) { s.upstreams.peers.RenewWhere(match) }

// SetPeerProcess sets the boot and the nonce of the present process of a node, whose previous
// processes have ended. Later requests do not use connections to those processes.
func (s *Server) SetPeerProcess(node string, boot, nonce uint64) {
	s.upstreams.peers.SetPeerProcess(node, boot, nonce)
}

// SetDraining turns draining on or off. While it is on, responses contain Connection: close, and
// connections that have been idle for a second are closed. New connections are still accepted.
func (s *Server) SetDraining(on bool) { s.lifecycle.draining.Store(on) }

// Shutdown accepts the connections in the listen backlog, stops accepting, and waits until all
// connections are closed. Idle and new connections stay open for a moment, because their next
// request may already have been sent. The response to it contains Connection: close. If ctx ends
// first, Shutdown aborts the remaining connections, waits for their goroutines, and returns the
// error of ctx.
//
// A request with a safe method that has waited DrainTimeout for the first byte of its response does
// not delay Shutdown. Its connection is closed, and the client may repeat it at another node. An
// event stream that would still be open at the end of ctx ends shortly before, between two events.
func (s *Server) Shutdown(ctx context.Context) error {
	s.lifecycle.stopAccepting(ctx)
	defer s.idleSockets.Close()
	defer s.upstreams.close()
	err := s.lifecycle.awaitDrained(ctx, s.conns.AllClosed)
	if err != nil {
		s.abortConns()
		<-s.lifecycle.listeners.Closed()
		<-s.conns.AllClosed()
	}
	return err
}

// abortConns aborts all connections, including those that are accepted later.
func (s *Server) abortConns() {
	s.lifecycle.abort()
	s.conns.Each(func(c *client) { c.terminate(cause.Shutdown) })
	s.conns.WakeParked(false, connset.AnyParked)
}

// DrainClients stops accepting like Shutdown, and waits until no client is connected. Forwarded
// requests of other nodes continue. If ctx ends first, DrainClients returns the error of ctx; it
// aborts no connection.
func (s *Server) DrainClients(ctx context.Context) error {
	s.lifecycle.stopAccepting(ctx)
	return s.lifecycle.awaitDrained(ctx, s.conns.AllClientsClosed)
}

// ClosePeers closes the streams from other nodes, including streams that arrive later. Requests on
// them are cancelled or not started, and the response to the other node reports which of the two.
// It returns after up to 2*reportTimeout.
func (s *Server) ClosePeers() {
	s.lifecycle.abort()
	s.conns.Each(func(c *client) {
		if c.ingress != "" {
			c.terminate(cause.Shutdown)
		}
	})
	timeout := time.NewTimer(2 * reportTimeout)
	defer timeout.Stop()
	select {
	case <-s.conns.AllClosed():
	case <-timeout.C: // an app in this process may need more time
	}
}

// ExpectListener announces a listener that will be passed to ServeClients later. If Shutdown is
// called before that, it waits for ServeClients, so that clients that connect in the meantime receive a
// response. Without the announcement, connections in the backlog of the listener would be reset.
func (s *Server) ExpectListener(ln net.Listener) { s.lifecycle.listeners.Add(ln) }
