package proxy

import (
	"context"
	"errors"
	"hash/maphash"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"shardway/proxy/h1"
	"shardway/proxy/pathguard"
	"shardway/queue"
	"shardway/shardmap"
)

// Server is the proxy of one node. New builds it. ServeClients gives it the connections of
// clients, and ServePeer those of other nodes. The node calls Wake after each new routing table,
// and Cut, CancelUpstream or Abandon when requests must not continue. Server is a
// prometheus.Collector.
type Server struct {
	o              Options // the Settings in it are zero; see set
	set            atomic.Pointer[Settings]
	upstream       *pool // nil in a gateway
	peers          peers
	conns          registry
	stalledScratch []*client // memory of Stalled
	loops          eventLoopGroup
	appWatch       appWatch
	handshakes     handshakes
	sizes          sizes
	// nonResumable contains the paths whose WebSockets are not resumable, as sizes does for large
	// responses.
	nonResumable sizes
	// streamThreshold is the constant of that name, except in tests.
	streamThreshold int32
	headerMemory    memoryLimit // partly read
	awaited         memoryLimit // bodies that are read before their requests go on
	budget          budget
	load            loads
	wrecks          wrecks
	// quarantine is nil while nothing is in quarantine.
	quarantine      atomic.Pointer[Quarantine]
	streams         streams
	peerGoroutines  sync.WaitGroup // of the sockets of other nodes
	callbackWatcher callbackWatcher
	streamQueue     *queue.Queue // of event streams without a leg
	webSockets      webSockets
	metrics         *metrics
	draining        atomic.Bool
	closing         atomic.Bool // set with mu held: no listener comes after it
	// leaveBy is when Shutdown or Retire ends the remaining connections, by the coarse clock. It
	// is set before closing.
	leaveBy atomic.Int64
	// forceCtx ends with hasty: every connection is cut then, one that waits for its TLS
	// handshake and one that only comes in, too.
	forceCtx    context.Context //nolint:containedctx // of the Server's whole life
	forceCancel context.CancelFunc
	// life ends with Shutdown, and with it what is being dialed.
	lifeCtx    context.Context //nolint:containedctx // as hard
	lifeCancel context.CancelFunc
	dialers    sync.WaitGroup
	buffers    h1.Buffers
	clients    clientPool
	repairs    repairLog
	// lingering bounds the connections that are closed but whose clients still send.
	lingering    h1.Lingering
	bodies       bodies
	keyless      Route // of requests without a key
	hookPath     pathguard.Guard
	clock        coarse
	now          atomic.Pointer[[]byte] // the Date header
	second       atomic.Int64           // that it tells
	lastReap     time.Duration          // the sweep's own
	pathDetector pathDetector           // likewise
	// parkAfter and parkAfterReturn are as the constants, but in tests.
	parkAfter, parkSoon atomic.Int64

	mu struct {
		sync.Mutex
		listeners map[net.Listener]struct{}
		none      chan struct{} // closed once closing is set and there are none
	}
}

// New makes a Server. It starts nothing.
func New(o Options) *Server {
	o = o.withDefaults()
	s := &Server{o: o, metrics: newMetrics(), keyless: Route{Kind: Local}, hookPath: pathguard.New(o.HookPath)}
	s.set.Store(o.Settings.withDefaults())
	s.streamQueue = queue.New(queue.Options{Requests: o.MaxConns, Bytes: math.MaxInt64, Wait: o.QueueWait, CPUUsage: o.Queue.CPUUsage})
	s.webSockets.pacer = reconnectPacer{patience: o.ResumeTimeout / 2, measureDelay: timerDelay, onGrow: func() { s.peers.each((*pool).dialForUpgrades) }}
	s.webSockets.handovers.late = timerDelay
	s.webSockets.queue = queue.New(queue.Options{
		Requests: o.MaxConns, Bytes: math.MaxInt64, Wait: 2 * maxResumeWaits * o.ResumeTimeout, Batch: resumeBatch, Pace: resumeInterval, FixedRate: true,
	})
	s.o.Settings = Settings{}
	s.parkAfter.Store(int64(parkAfter))
	s.parkSoon.Store(int64(parkAfterReturn))
	s.sizes.seed, s.streamThreshold = maphash.MakeSeed(), streamThreshold
	s.nonResumable.seed = s.sizes.seed
	s.clock.start(time.Now())
	s.tick()
	s.conns.tick, s.conns.sweep, s.conns.mustSweepAll, s.conns.kick = s.tick, s.sweep, s.mustSweepAll, make(chan struct{}, 1)
	s.streams.most = int64(s.o.MaxStreams)
	s.bodies.most = s.o.BodyBuffer
	s.lifeCtx, s.lifeCancel = context.WithCancel(context.Background())
	s.peers.fresh = s.newPeerPool
	dial := s.dialUpstream
	if s.o.Handler != nil {
		dial = s.newHandlerConn
	}
	if s.o.Handler != nil || s.o.DialUpstream != nil {
		s.upstream = s.newPool("", dial)
		s.upstream.max, s.upstream.checkBeforeReuse = s.o.MaxUpstreamConns, true
		s.upstream.mu.shardLimits.most = max(s.o.MaxShardConns, 0)
	}
	s.lingering.Most = min(1024, max(1, o.MaxConns/4))
	s.budget.fill()
	s.load.start(s.o.Shards)
	s.wrecks.tell = s.o.Wrecked
	s.mu.listeners, s.mu.none = make(map[net.Listener]struct{}), make(chan struct{})
	s.forceCtx, s.forceCancel = context.WithCancel(context.Background())
	return s
}

// ServeClients accepts connections from ln until ctx ends or Shutdown is called, and closes ln. It
// returns after the last connection has been closed. That is at once after ctx has ended; after
// Shutdown, requests in progress finish first. In both cases the error is nil. Otherwise it is the
// error of ln.
func (s *Server) ServeClients(ctx context.Context, ln net.Listener) error {
	if !s.listen(ln) {
		return ln.Close()
	}
	waiting := newRawAcceptor(ln)
	var last []net.Conn                         // what acceptOne has taken and not returned yet
	places := make(chan struct{}, s.o.MaxConns) // one for each open connection but the newest
	over := func() {
		s.conns.removeAccepted()
		<-places
	}
	watcher := &idleWatcher{within: ctx, conns: &s.conns, clock: &s.clock}
	s.loops.open(s)
	defer s.loops.close()
	watcher.workers = newWorkerPool(func(g job) {
		if g.client != nil {
			g.client.serveOn(&watcher.workers.wg, over)
		} else if s.shake(ctx, g.conn) {
			c := newClient(ctx, s, g.conn, "")
			watcher.initClient(c, g)
			c.serveAll(&watcher.workers.wg, over)
		} else {
			over()
		}
	})
	defer watcher.close()
	cut := context.AfterFunc(ctx, func() { s.closeWithin(ctx) })
	defer cut()
	defer watcher.workers.close() // after unlisten: what an open listener takes in would be reset
	defer s.unlisten(ln)
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	for {
		conn, err := s.accept(ctx, ln, waiting, &last)
		if err != nil {
			if ctx.Err() != nil || s.isClosed() {
				return nil
			}
			return err
		}
		s.conns.addAccepted()
		s.acquireConnSlot(places)
		watcher.workers.submit(job{conn: conn})
	}
}

// closeWithin ends the connections that belong to ctx, which has ended; those that only
// come in see that themselves.
func (s *Server) closeWithin(ctx context.Context) {
	s.conns.each(func(c *client) {
		if c.life.within == ctx {
			c.terminate(causeShutdown)
		}
	})
	s.conns.wake(false, func(p *parkedConn) bool { return p.watcher.within == ctx })
}

// ServePeer serves one stream of forwarded requests from the node ingress, and
// returns when the stream has ended or ctx has, or when the stream has become that of a
// kept socket: then it closes conn when that is over, which Shutdown waits for.
func (s *Server) ServePeer(ctx context.Context, conn net.Conn, ingress string) {
	c := newClient(ctx, s, conn, ingress)
	stop := context.AfterFunc(ctx, func() { c.terminate(causeShutdown) })
	c.serveAll(&s.peerGoroutines, func() { stop() })
	if _, ok := conn.(muxStream); ok {
		stop() // of a socket that stays: it ends with its trunk, which is the node's
	}
}

// accept takes the next connection. Out of file descriptors or memory it pauses,
// lets idle connections go and tries again.
func (s *Server) accept(ctx context.Context, ln net.Listener, waiting *rawAcceptor, last *[]net.Conn) (net.Conn, error) {
	const first, most = 5 * time.Millisecond, time.Second
	for pause := first; ; pause = min(2*pause, most) {
		conn, err := s.acceptOne(ln, waiting, last)
		if err == nil {
			if pause > first {
				s.o.Log.Info().Msg("accepting resumed")
			}
			return conn, nil
		}
		if !isTemporary(err) || s.isClosed() {
			return nil, err
		}
		if pause == first {
			s.o.Log.Warn().Err(err).Msg("accepting paused")
		}
		s.evictIdle(drainIdleTimeout, math.MaxInt)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

// isTemporary reports whether accepting may work again later.
func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return !errors.Is(err, net.ErrClosed) && errors.As(err, &t) && t.Temporary()
}

// Wake makes waiting requests look up their route again, including those that wait for a
// connection to a former destination. The node calls it after each change of the table, with the
// generation of the new table.
func (s *Server) Wake(generation uint64) {
	s.o.Queue.Wake(generation)
	s.streamQueue.Wake(generation)
	s.webSockets.queue.Wake(generation)
	if s.webSockets.relays.Load() > 0 {
		s.conns.sweepSoon()
	}
	t := s.o.Cluster.Table()
	if s.upstream != nil {
		s.upstream.recheckWaiters(t)
	}
	s.peers.each(func(p *pool) { p.recheckWaiters(t) })
}

// Cut cuts what runs on the local app for the shards that match names, and
// returns how many it were. Whoever still waits for the head of an answer gets
// 502 draining, others lose their connection. The reason is for the metrics.
func (s *Server) CancelShards(match func(shardmap.Shard) bool, reason string) int {
	n := s.conns.cancelRuns(causeDrainTimeout, func(r run, _ string) bool {
		return r.kind == Local && r.flags&slotKeyless == 0 && match(r.shard)
	})
	s.metrics.cut(reason, n)
	return n
}

// CancelUpstream cancels all runs on the local app, and returns their number. Requests that may be
// repeated are sent again.
func (s *Server) CancelUpstream(reason string) int { return s.cancelLocal(causeLease, reason) }

// CancelForStop is CancelUpstream for a node that stops, and has let what runs end for as long
// as it may: the others get 502 draining.
func (s *Server) CancelForStop(reason string) int { return s.cancelLocal(causeStopping, reason) }

func (s *Server) cancelLocal(why cause, reason string) int {
	n := s.conns.cancelRuns(why, func(r run, _ string) bool { return r.kind == Local })
	s.metrics.cut(reason, n)
	return n
}

// Abandon drops requests forwarded to node for shard s where match says so, and
// returns how many. Those that may go again do, the others get 502.
func (s *Server) CancelForwarded(match func(s shardmap.Shard, node string) bool) int {
	n := s.conns.cancelRuns(causeOwnerLost, func(r run, node string) bool {
		return r.kind == Remote && match(r.shard, node)
	})
	s.metrics.cut(causeOwnerLost.String(), n)
	return n
}

// UpstreamConnected reports whether a connection to the app is open that the app has not
// closed: one that carries a request, or an idle one. An app that has ended has none.
func (s *Server) UpstreamConnected() bool { return s.upstream != nil && s.upstream.hasOpenConn() }

// RenewUpstream closes the idle connections to the app. Connections in use are closed after their
// request.
func (s *Server) RenewUpstream() {
	if s.upstream != nil {
		s.upstream.renew()
	}
}

// RenewPeers lets the connections to other nodes go as they come free, so that
// requests go over new ones: this node, or whom it believes, has changed.
func (s *Server) RenewPeers() { s.peers.renew() }

// RenewPeersWhere closes the connections to nodes for which match says so that are idle. Those in use
// go on, and carry no other request.
func (s *Server) RenewPeersWhere(match func(node string) bool) { s.peers.renewTo(match) }

// Follow tells that the process of a node is the one with this nonce, in this boot, and those
// before it have ended: no request goes by what is left of connections to them.
func (s *Server) SetPeerProcess(node string, boot, nonce uint64) { s.peers.follow(node, boot, nonce) }

// SetDraining turns draining on or off. While it is on, answers carry
// Connection: close, and connections that have been idle for a second are closed;
// new ones are still taken.
func (s *Server) SetDraining(on bool) { s.draining.Store(on) }

// Shutdown takes the connections that are waiting to be accepted, stops accepting,
// and waits for all there are. Those that are idle, or have just come in, are given
// the moment in which their next request may be under way; it is answered with
// Connection: close. When ctx ends first Shutdown cuts them, waits for their
// goroutines all the same, and returns ctx's error.
//
// A request of a safe method that has waited DrainTimeout for the first byte of its response
// does not delay Shutdown: its connection is closed, and the client may send it again
// elsewhere. An event stream that Shutdown would have to cut ends shortly before, between two
// events.
func (s *Server) Shutdown(ctx context.Context) error {
	s.SetDraining(true)
	s.setLeaveBy(ctx)
	s.stopAccepting()
	defer s.closeIdle()
	ended := ctx.Done()
	for _, quiet := range []func() <-chan struct{}{s.unlistened, s.conns.none} {
		select {
		case <-quiet():
			continue
		case <-ended:
		}
		s.forceCancel()
		s.conns.each(func(c *client) { c.terminate(causeShutdown) })
		s.conns.wake(false, everyone)
		<-quiet()
		ended = nil // what there was has been cut
	}
	if ended == nil {
		return ctx.Err()
	}
	return nil
}

// Retire stops accepting as Shutdown does, and waits until no client is connected any
// more; what other nodes forward goes on. When ctx ends first it returns ctx's error,
// and has cut nothing.
func (s *Server) DrainClients(ctx context.Context) error {
	s.SetDraining(true)
	s.setLeaveBy(ctx)
	s.stopAccepting()
	for _, quiet := range []func() <-chan struct{}{s.unlistened, s.conns.noClients} {
		select {
		case <-quiet():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// setLeaveBy sets leaveBy to the deadline of ctx, or to the end of time.
func (s *Server) setLeaveBy(ctx context.Context) {
	by := int64(math.MaxInt64)
	if at, ok := ctx.Deadline(); ok {
		by = int64(at.Sub(s.clock.origin))
	}
	s.leaveBy.Store(by)
}

// ClosePeers ends the streams of other nodes, and those that come from now on. What
// they still ask for is cut, or not run, and they are told which. It takes a moment.
func (s *Server) ClosePeers() {
	s.forceCancel()
	s.conns.each(func(c *client) {
		if c.ingress != "" {
			c.terminate(causeShutdown)
		}
	})
	late := time.NewTimer(2 * reportTimeout)
	defer late.Stop()
	select {
	case <-s.conns.none():
	case <-late.C: // an app in this process takes its time
	}
}

// closeIdle closes the idle connections to the app and to other nodes, and ends
// what is being dialed.
func (s *Server) closeIdle() {
	if s.upstream != nil {
		s.upstream.close()
	}
	s.peers.closeIdle()
	s.lifeCancel()
	s.dialers.Wait()
	s.callbackWatcher.close()
}

// Expect announces a listener that ServeClients will be given for certain. A Shutdown
// before that waits for it, so that who connected meanwhile is answered; without,
// what waits at the listener then is reset.
func (s *Server) ExpectListener(ln net.Listener) { s.listen(ln) }

// listen notes a listener for Shutdown. It returns false if that was called before.
func (s *Server) listen(ln net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, expected := s.mu.listeners[ln]; expected || s.closing.Load() {
		return expected
	}
	s.mu.listeners[ln] = struct{}{}
	return true
}

func (s *Server) unlisten(ln net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.listeners, ln)
	_ = ln.Close()
	if s.closing.Load() && len(s.mu.listeners) == 0 {
		close(s.mu.none)
	}
}

func (s *Server) isClosed() bool { return s.closing.Load() }
