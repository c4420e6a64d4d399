package proxy

import (
	"context"
	"hash/maphash"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"shardway/proxy/appsilence"
	"shardway/proxy/backoff"
	"shardway/proxy/buffer"
	"shardway/proxy/cause"
	"shardway/proxy/connpool"
	"shardway/proxy/connset"
	"shardway/proxy/eventloop"
	"shardway/proxy/h1"
	"shardway/proxy/httpclock"
	"shardway/proxy/keylimit"
	"shardway/proxy/listener"
	"shardway/proxy/loadstats"
	"shardway/proxy/metrics"
	"shardway/proxy/panics"
	"shardway/proxy/pathguard"
	"shardway/proxy/poison"
	"shardway/proxy/reqbody"
	"shardway/proxy/retry"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/proxy/sizehint"
	"shardway/proxy/upstream"
	"shardway/proxy/wrapkey"
	"shardway/proxy/wsfirst"
	"shardway/proxy/wsrelay"
	"shardway/queue"
	"shardway/shardmap"
)

// Server is the proxy of one node. New creates it. ServeClients serves client connections, and
// ServePeer serves streams from other nodes. The node calls Wake after each change of the routing
// table. It calls CancelShards, CancelUpstream or CancelForwarded to stop requests that must not
// continue. Server implements prometheus.Collector.
type Server struct {
	// Configuration. options and settings are set by New, and settings also by Apply.

	options  Options // its Settings are zero; see settings
	settings atomic.Pointer[Settings]
	keyless  [shardmap.MaxInstances]route.Route // by app instance: route of requests without a key
	hookPath pathguard.Guard
	// furtherHookPaths protects Options.FurtherHookPaths.
	furtherHookPaths []pathguard.Guard
	explain          route.Explainer
	keyPlacer        route.KeyPlacer
	wrapCodec        *wrapkey.Codec
	// quarantine contains the keys whose requests are rejected; nil means none.
	quarantine atomic.Pointer[shardkey.Quarantine]
	// streamThreshold and maxHoldTime equal the constants with the same names, except in tests.
	streamThreshold int32
	maxHoldTime     time.Duration

	// Connections of clients, and streams from other nodes.

	conns          connset.Set[*client]
	loops          eventloop.Group
	clients        clientPool
	parkDelays     connset.ParkDelays
	peerGoroutines sync.WaitGroup // counts relays of WebSockets that other nodes have forwarded
	stalledScratch []*client      // reused by Stalled
	// lingering limits the closed connections whose clients may still send data.
	lingering h1.Lingering

	// Connections to the app and to other nodes.

	upstreams      upstream.Pools
	budget         retry.Budget
	crashes        poison.Recorder
	largeResponses sizehint.Predictor // paths whose next response will probably be large or slow

	// Limits of keys.

	keyGate    keylimit.Gate // for Settings.MaxKeyInflight
	shardGate  keylimit.Gate // for Settings.MaxShardInflight with Options.Processes
	limitGate  keylimit.Gate // for keylimit.Limit.Concurrent
	keyBuckets *keylimit.Buckets
	keyHasher  keylimit.Hasher

	// WebSockets and event streams.

	webSockets  webSockets
	streamQueue *queue.Queue // event streams that wait for an upstream connection
	// firstMessages limits the WebSockets that wait for their first message.
	firstMessages wsfirst.Limit

	// Memory.

	buffers      h1.Buffers
	bodies       reqbody.Shared
	headerMemory buffer.Limit // memory of partly read headers

	// Measurements.

	metrics    *metrics.Metrics
	load       loadstats.Collector
	appSilence appsilence.Detector
	panics     panics.Recorder
	repairLog  repairLog
	claims     claimReporter

	// Time, sweep and shutdown.

	clock     httpclock.Clock
	sweeper   *sweeper
	lifecycle listener.Lifecycle
}

// New returns a Server. It starts no goroutine.
func New(options Options) *Server {
	options = options.withDefaults()
	s := &Server{
		options: options, explain: options.Explain, metrics: metrics.New(options.ServiceInstances != nil), keyHasher: keylimit.NewHasher(), keyBuckets: keylimit.NewBuckets(), hookPath: pathguard.New(options.HookPath),
		streamThreshold: streamThreshold, maxHoldTime: maxHoldTime,
	}
	s.options.Settings = Settings{}
	s.panics = panics.Recorder{Log: &s.options.Log, Count: &s.metrics.Panics}
	s.claims.log = &s.options.Log
	s.wrapCodec = wrapkey.NewCodec(options.WrapKeys)
	for _, path := range options.FurtherHookPaths {
		s.furtherHookPaths = append(s.furtherHookPaths, pathguard.New(path))
	}
	s.keyPlacer = route.KeyPlacer{Table: func() *route.Table { return s.options.Cluster.Table() }, AcceptsNewKeys: options.AcceptsNewKeys}
	s.settings.Store(options.Settings.withDefaults())
	s.clock.Init()
	s.lifecycle.Init(&s.clock.Clock)
	s.budget.Fill()
	s.load.Start(s.options.Shards)
	s.crashes.Report = s.options.PeerCrashed
	s.sweeper = newSweeper(s)
	s.firstMessages.Max = options.MaxFirstMessages
	s.initConns()
	s.initBuffers()
	s.initUpstreams()
	return s
}

// initConns initializes the state of client connections.
func (s *Server) initConns() {
	s.conns.Init(connset.Hooks[*client]{Tick: s.clock.Tick, Sweep: s.sweeper.sweep, MustSweepAll: s.sweeper.mustSweepAll})
	s.loops.Log = s.options.Log
	s.parkDelays.Init()
	// Up to a quarter of all connections may linger, but at least one and no more than 1024.
	s.lingering.Max = min(1024, max(1, s.options.MaxConns/4))
}

// initBuffers initializes the pools of buffers.
func (s *Server) initBuffers() {
	s.bodies.BufferSize, s.bodies.Clock, s.bodies.Recover = s.options.BodyBuffer, &s.clock.Clock, s.panics.Send
	s.bodies.OnShed = func(bodies uint64) { s.metrics.ShedBodies.Add(bodies) }
	s.bodies.Buffers.SetMaxSize(s.options.BodyBuffer)
	if s.options.Disable.Splice {
		s.buffers.DisableSplice()
	}
}

// keylessRoute returns the route of a request of a service without a key: an app instance of this node.
func (s *Server) keylessRoute(service string) *route.Route {
	return &s.keyless[s.upstreams.KeylessInstance(service, s.options.InstanceHealthy)]
}

// initUpstreams initializes the connections to the app and to other nodes, and the predictions
// about responses. It also initializes the WebSockets, and the queue of event streams that wait for
// an upstream connection. These queues have a slot for each client connection.
func (s *Server) initUpstreams() {
	s.streamQueue = queue.New(queue.Options{Requests: s.options.MaxConns, Bytes: math.MaxInt64, Wait: s.options.QueueWait, CPUUsage: s.options.Queue.CPUUsage})
	s.webSockets.init(&s.options, &s.upstreams, &s.metrics.Tunnels, wsrelay.Shared{
		Clock: &s.clock.Clock, ReturnedSoon: connset.ReturnSoon, Recover: s.panics.Copy, ParkDelay: s.parkDelays.Delay,
		IdleTimeout: func() time.Duration { return s.settings.Load().IdleTimeout },
	}, s.upstreams.DialProbe)
	s.upstreams.Init(s.upstreamOptions())
	for instance := range s.keyless {
		s.keyless[instance] = route.Route{Kind: route.Local, Instance: uint8(instance)}
	}
	s.largeResponses.SetSeed(maphash.MakeSeed())
}

// upstreamOptions returns the options of the connections to the app and to other nodes.
func (s *Server) upstreamOptions() upstream.Options {
	options := upstream.Options{
		Network: s.options.Cluster, Limits: func() *upstream.Limits { return &s.settings.Load().upstreamLimits }, Buffers: &s.buffers,
		DisableMultiplexing: s.options.Disable.Multiplexing, Services: s.options.ServiceInstances,
		Pool: connpool.Options{
			Clock: &s.clock.Clock, Pacer: &s.webSockets.pacer,
			Queues: backoff.Queues{s.options.Queue, s.streamQueue, s.webSockets.queue},
		},
		MaxConns: s.options.MaxUpstreamConns, MaxShardConns: max(s.options.MaxShardConns, 0), // a negative value means no limit
		MaxLongLived: s.options.MaxStreams, MaxIdlePeer: s.options.PeerConns,
	}
	if s.options.Handler != nil {
		options.DialHandler = s.handlerDialer()
	}
	if s.options.Processes != nil {
		options.DialProcess = s.options.Processes.Dial
	}
	if s.options.DialUpstream != nil || len(s.options.FurtherUpstreams) > 0 {
		options.DialApps = append([]upstream.DialApp{s.options.DialUpstream}, s.options.FurtherUpstreams...)
	}
	return options
}

// ServeClients accepts connections from ln until ctx ends or Shutdown is called, and then closes
// ln. It returns after the last connection has been closed. When ctx ends, it aborts the
// connections; after Shutdown, requests in progress finish first. In both cases it returns nil.
// Otherwise it returns the error of ln.
func (s *Server) ServeClients(ctx context.Context, ln net.Listener) error {
	if !s.lifecycle.Listeners.Add(ln) {
		return ln.Close()
	}
	acceptor := listener.New(ln)
	connListener := newClientListener(ctx, s)
	s.loops.Open()
	defer s.loops.Close()
	defer connListener.watcher.Sockets.Close()
	stopAbort := context.AfterFunc(ctx, func() { s.closeWithin(ctx) })
	defer stopAbort()
	defer connListener.workers.Close() // must run after Remove, because connections accepted by an open listener would be reset
	defer s.lifecycle.Listeners.Remove(ln)
	stopClose := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stopClose()
	freeResources := func() { s.evictIdle(drainIdleTimeout, math.MaxInt) }
	for {
		conn, err := acceptor.AcceptRetry(ctx, s.lifecycle.IsStopping, s.options.Log, freeResources)
		if err != nil {
			isStopping := ctx.Err() != nil || s.lifecycle.IsStopping()
			if isStopping {
				return nil
			}
			return err
		}
		connListener.submit(conn)
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
// stream has ended, or when a resumable WebSocket has started on it. ctx aborts the stream. Once a
// WebSocket has started, the Server closes conn when it ends, and Shutdown waits for that.
func (s *Server) ServePeer(ctx context.Context, conn net.Conn, ingress string) {
	c := newClient(ctx, s, conn, ingress)
	stop := context.AfterFunc(ctx, func() { c.terminate(cause.Shutdown) })
	c.serveAll(&s.peerGoroutines, func() { stop() }) //nolint:contextcheck // c has ctx
	if _, ok := conn.(connpool.MuxStream); ok {
		stop() // a WebSocket continues until the node ends the multiplexed session of its stream
	}
}

// Wake makes waiting requests look up their route again, including those that wait for a connection
// to a previous destination. The node calls it after each change of the routing table, with the
// generation of the new table.
func (s *Server) Wake(generation uint64) {
	s.options.Queue.Wake(generation)
	s.streamQueue.Wake(generation)
	s.webSockets.queue.Wake(generation)
	if s.webSockets.running.Load() > 0 {
		s.conns.SweepSoon()
	}
	table := s.options.Cluster.Table()
	s.upstreams.RecheckWaiters(table)
	s.recheckKeys(table)
}

// UpstreamConnected reports whether a connection to an app instance is open at both ends, idle or
// in use. There is none once the app process has exited.
func (s *Server) UpstreamConnected(instance int) bool {
	pool := s.upstreams.App(uint8(instance))
	return pool != nil && pool.HasOpenConn()
}

// RenewUpstream closes the idle connections to an app instance. Connections in use are closed after
// their request.
func (s *Server) RenewUpstream(instance int) {
	if pool := s.upstreams.App(uint8(instance)); pool != nil {
		pool.Renew()
	}
}

// RenewPeers closes connections to other nodes as soon as they are idle, so that later requests use
// new connections. The node calls it when its certificate or its set of trusted authorities has
// changed.
func (s *Server) RenewPeers() { s.upstreams.Peers.Renew() }

// RenewPeersWhere closes the idle connections to the nodes for which match returns true.
// Connections in use are closed after their request.
func (s *Server) RenewPeersWhere(match func(node string) bool) { s.upstreams.Peers.RenewWhere(match) }

// SetPeerProcess sets the boot number and nonce of a node's current process. Later requests do not
// use connections to its previous processes, which have ended.
func (s *Server) SetPeerProcess(node string, boot, nonce uint64) {
	s.upstreams.Peers.SetPeerProcess(node, boot, nonce)
}

// SetDraining turns draining on or off. While it is on, responses contain Connection: close, and
// connections that have been idle for a second are closed. New connections are still accepted.
func (s *Server) SetDraining(on bool) { s.lifecycle.SetDraining(on) }

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
	s.lifecycle.SetServesPeers(false)
	s.lifecycle.StopAccepting(ctx)
	defer s.webSockets.idleSockets.Close()
	defer s.upstreams.Close()
	err := s.lifecycle.AwaitDrained(ctx, s.conns.AllClosed)
	if err != nil {
		s.abortConns()
		<-s.lifecycle.Listeners.Closed()
		<-s.conns.AllClosed()
	}
	return err
}

// abortConns aborts all connections, including those that are accepted later.
func (s *Server) abortConns() {
	s.lifecycle.Abort()
	s.conns.Each(func(c *client) { c.terminate(cause.Shutdown) })
	s.conns.WakeParked(false, connset.AnyParked)
}

// DrainClients stops accepting like Shutdown, and waits until no client is connected. Forwarded
// requests of other nodes continue, and their resumable event streams do not end. If ctx ends first, DrainClients returns the error of ctx; it
// aborts no connection.
func (s *Server) DrainClients(ctx context.Context) error {
	s.lifecycle.SetServesPeers(true)
	s.lifecycle.StopAccepting(ctx)
	return s.lifecycle.AwaitDrained(ctx, s.conns.AllClientsClosed)
}

// ClosePeers closes the streams from other nodes, including streams that arrive later. Requests on
// them are either cancelled or never started, and the response tells the other node which. It
// returns after up to 2*reportTimeout.
func (s *Server) ClosePeers() {
	s.lifecycle.Abort()
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
func (s *Server) ExpectListener(ln net.Listener) { s.lifecycle.Listeners.Add(ln) }

// maintain does the sweep's work that is needed only about once per second: it balances the event
// loops, updates the load statistics, and closes old idle connections. sinceLast is the time since
// the previous call.
func (s *Server) maintain(sinceLast time.Duration) {
	s.loops.Balance(sinceLast)
	if handover, ok := s.webSockets.summary.TakeComplete(time.Now()); ok && s.options.OnHandover != nil {
		s.options.OnHandover(handover)
	}
	s.load.Update(time.Now())
	s.upstreams.CloseIdleOlderThan(maxIdleAge, s.options.KeepUpstream)
}

// AppSilence reports whether the app hangs. A call may take some milliseconds, so it should be called
// at most once a second.
func (s *Server) AppSilence() appsilence.Report {
	// If there are no connections, there are no sweeps, so the last result may be outdated.
	return s.appSilence.Report(s.clock.Exact() - 20*sweepEvery)
}
