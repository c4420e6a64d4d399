package proxy

import (
	"cmp"
	"math"
	"net"
	"sync/atomic"
	"time"

	"shardway/internal/coarsetime"
	"shardway/proxy/appsilence"
	"shardway/proxy/cause"
	"shardway/proxy/connpool"
	"shardway/proxy/connset"
	"shardway/proxy/inflight"
	"shardway/proxy/keylimit"
	"shardway/proxy/listener"
	"shardway/proxy/metrics"
	"shardway/proxy/peerpath"
	"shardway/proxy/route"
	"shardway/proxy/sizehint"
	"shardway/proxy/wsession"
)

const (
	// sweepEvery is the interval between sweeps.
	sweepEvery = connset.SweepInterval
	// maxIdleAge is how long an idle connection to the app or to a node is kept.
	maxIdleAge = time.Minute
	// longResponse is the time after which a response that has begun is treated as a stream.
	longResponse = 10 * time.Second
	// drainIdleTimeout is how long a client connection must be idle before it is closed during a
	// drain. A client will probably reuse a connection that it used very recently, and closing it
	// could collide with the next request.
	drainIdleTimeout = time.Second
	// drainStreamTimeout is the corresponding time for a connection from another node during
	// Shutdown. It is shorter, because that node already has a shard map without this node, or is
	// about to apply one.
	drainStreamTimeout = 250 * time.Millisecond
	// streamEndTimeout is how long an event stream may continue after its end was requested, until
	// the end of the current event.
	streamEndTimeout = wsession.EndTimeout
)

// sweeper checks the open connections of a Server at regular intervals. It enforces the limits for
// requests whose goroutines wait for the network. Only the sweeping goroutine of conns uses it.
type sweeper struct {
	// Set by newSweeper.

	clock           *coarsetime.Clock
	cluster         Cluster
	settings        *atomic.Pointer[Settings]
	lifecycle       *listener.Lifecycle
	metrics         *metrics.Metrics
	conns           *connset.Set[*client]
	appSilence      *appsilence.Detector
	longLived       *connpool.LongLivedLimit
	keyGate         *keylimit.Gate
	shardGate       *keylimit.Gate
	limitGate       *keylimit.Gate
	largeResponses  *sizehint.Predictor
	handovers       *wsession.HandoverPacer
	drainTimeout    time.Duration                 // Options.DrainTimeout
	reconnectSpread time.Duration                 // Options.ReconnectSpread
	maintain        func(sinceLast time.Duration) // work that is needed only about once per second

	lastMaintenance time.Duration // time of the last call of maintain, by the clock
	peerPaths       peerpath.Detector
	clients         []*client // clients of the current sweep
}

// newSweeper returns the sweeper of s. It refers to parts of s that may be initialized later.
func newSweeper(s *Server) *sweeper {
	created := &sweeper{
		clock:           &s.clock.Clock,
		cluster:         s.options.Cluster,
		settings:        &s.settings,
		lifecycle:       &s.lifecycle,
		metrics:         s.metrics,
		conns:           &s.conns,
		appSilence:      &s.appSilence,
		longLived:       &s.upstreams.LongLived,
		keyGate:         &s.keyGate,
		shardGate:       &s.shardGate,
		limitGate:       &s.limitGate,
		largeResponses:  &s.largeResponses,
		handovers:       &s.webSockets.handovers,
		drainTimeout:    s.options.DrainTimeout,
		reconnectSpread: s.options.ReconnectSpread,
		maintain:        s.maintain,
	}
	created.peerPaths.ConnsInUse = created.eachConnToPeers
	return created
}

// mustSweepAll reports whether the next sweep must include quiescent WebSockets. While the node is
// leaving, each of them has its own deadline. All connections to a peer must be checked before it
// is declared unresponsive.
func (sweeper *sweeper) mustSweepAll() bool {
	isLeaving := sweeper.lifecycle.IsStopping() || sweeper.lifecycle.IsDraining()
	pathCheckDue := sweeper.peerPaths.NeedsCompleteSweep(sweeper.clock.Now())
	return isLeaving || pathCheckDue
}

// sweep checks the open connections, and closes or parks those that have been idle for a long time.
// It starts disconnect watches for requests that have been running for a while, and detects apps
// that do not respond and runs whose shard has moved. Unless complete is set, clients does not
// contain quiescent WebSockets. Only the sweeping goroutine calls it.
func (sweeper *sweeper) sweep(clients []*client, complete bool) {
	now := sweeper.clock.Now()
	table, settings := sweeper.cluster.Table(), sweeper.settings.Load()
	sweeper.clients = clients
	sweeper.peerPaths.Begin(complete, now)
	sweeper.appSilence.BeginSweep(now)
	parksLeft := maxParksPerSweep
	for _, c := range clients {
		if session := c.session.Load(); session != nil {
			sweeper.sweepSession(c, session, now)
		}
		sweeper.sweepRun(c, table, settings, now)
		if sweeper.sweepIdle(c, settings, now, parksLeft > 0) {
			parksLeft--
		}
	}
	sweeper.appSilence.EndSweep()
	sweeper.keyGate.RemoveEndedRuns()
	sweeper.shardGate.RemoveEndedRuns()
	sweeper.limitGate.RemoveEndedRuns()
	idleLimit := time.Duration(math.MaxInt64)
	if sweeper.lifecycle.IsDraining() {
		idleLimit = drainIdleTimeout
	}
	sweeper.conns.SweepParked(now, idleLimit)
	if sinceLast := now - sweeper.lastMaintenance; sinceLast >= time.Second {
		sweeper.lastMaintenance = now
		sweeper.maintain(sinceLast)
	}
}

// sweepIdle checks a connection that waits for its next request. It closes the connection if the
// node is leaving, requests to park it, or lets its goroutine check the idle timeout. It requests
// parking only if mayPark is set, and reports whether it did.
func (sweeper *sweeper) sweepIdle(c *client, settings *Settings, now time.Duration, mayPark bool) (requestedPark bool) {
	idleStart := c.idle.since()
	if idleStart == 0 {
		return false // a request is in progress
	}
	idleTime := now - idleStart
	switch {
	case idleTime >= sweeper.idleLimit(c):
		c.conn.StopWaiting()
	case mayPark && c.idle.canPark.Load() && idleTime >= time.Duration(c.idle.parkDelay.Load()):
		c.requestPark()
		return true
	case c.loopClient.Loop() != nil && idleTime >= settings.IdleTimeout:
		c.loopClient.Wake() // its goroutine checks the idle timeout
	}
	return false
}

// idleLimit returns how long a connection may be idle before it is closed because the node is
// leaving.
func (sweeper *sweeper) idleLimit(c *client) time.Duration {
	switch {
	case c.isDraining():
		return drainIdleTimeout
	case c.ingress != "" && sweeper.lifecycle.IsStopping():
		return drainStreamTimeout
	}
	return math.MaxInt64
}

// sweepRun checks the run of a connection: its path, its deadlines, and whether its shard has
// moved. A run seen for the first time is only registered.
func (sweeper *sweeper) sweepRun(c *client, table *route.Table, settings *Settings, now time.Duration) {
	current := c.slot.Load()
	if current.IsCancelled() && current.Kind == route.Local && current.Has(inflight.Resumable) {
		abortStuckClient(c, current, now)
	}
	if current.Kind == 0 {
		sweeper.sweepBuffering(c, now)
		return
	}
	if current.IsCancelled() {
		return
	}
	if current.Number != c.lastSweptRun {
		seenAt := sweeper.clock.Exact() // the run may have begun after now, if the sweep was delayed
		c.lastSweptRun, c.runSeenAt, c.moveSeenAt, c.nextPathCheck = current.Number, seenAt, 0, now+peerpath.CheckAfter
		return
	}
	if c.loopClient.Loop() != nil {
		c.loopClient.Wake() // from now on, a goroutine waits for the response and watches the client
		return
	}
	c.disconnect.Start()
	if current.Kind == route.Remote && sweeper.sweepPath(c, current, now) {
		return
	}
	if sweeper.sweepTotalTimeout(c, current, now) {
		return
	}
	sweeper.sweepLongResponse(c, current, now)
	if awaitsLocalApp(c, current) {
		sweeper.countWaiting(c, current)
	}
	sweeper.sweepDeadline(c, current, table, settings, now)
}

// sweepLongResponse treats a response that has been in progress for longResponse as a stream.
// Tunnels and event streams of the local app already count as streams.
func (sweeper *sweeper) sweepLongResponse(c *client, current inflight.Run, now time.Duration) {
	if !current.Has(inflight.ResponseBegun) || now-c.runSeenAt <= longResponse {
		return
	}
	switch current.Kind {
	case route.Local:
		if !current.Has(inflight.Tunnel | inflight.Events) {
			sweeper.countAsStream(c, current)
		}
	case route.Remote:
		if key := c.slowResponse.Swap(0); key != 0 {
			sweeper.largeResponses.Record(key, true) // further requests to this path use connections instead of streams
		}
	case route.Queued:
	}
}

// awaitsLocalApp reports whether this node's app has received the whole request but has not begun
// its response.
func awaitsLocalApp(c *client, current inflight.Run) bool {
	const respondsOrRelays = inflight.ResponseBegun | inflight.Tunnel | inflight.Events | inflight.WebSocket
	return current.Kind == route.Local && !current.Has(respondsOrRelays) && !c.body.IsBeingRead()
}

// countWaiting counts a run that waits for the app, to detect that the app does not respond at all.
func (sweeper *sweeper) countWaiting(c *client, current inflight.Run) {
	var conn net.Conn // nil means that the app runs in this process
	if upstream := c.slot.Conn.Load(); upstream != nil && !upstream.InProcess {
		conn = upstream.NetConn()
	}
	sweeper.appSilence.CountWaiting(c.runSeenAt, current.Has(inflight.Safe), conn)
}

// sweepDeadline ends a run that must not continue: because its shard has moved, because the node is
// leaving, or because the app has not responded within FirstByteTimeout.
func (sweeper *sweeper) sweepDeadline(c *client, current inflight.Run, table *route.Table, settings *Settings, now time.Duration) {
	switch {
	case current.Has(inflight.WebSocket):
		sweeper.sweepRelay(c, current, table, now)
		return
	case current.IsEndless():
		sweeper.sweepStream(c, current, table, settings.StreamGrace, now)
		return
	case sweeper.lifecycle.IsStopping() && isLongPoll(c, current, now, sweeper.drainTimeout):
		cancelBeforeResponse(&c.slot, current, cause.Leaving, sweeper.metrics)
		return
	}
	if current.Kind != route.Local || current.Has(inflight.ResponseBegun) {
		return // the owner enforces the timeout of a forwarded request
	}
	if c.body.IsBeingRead() {
		c.runSeenAt = now // the timeout starts at the end of the request body
		return
	}
	timeout := cmp.Or(time.Duration(c.firstByteTimeout.Load()), settings.FirstByteTimeout)
	hasTimeout := timeout >= 0
	if hasTimeout && now-c.runSeenAt > timeout {
		cancelBeforeResponse(&c.slot, current, cause.Timeout, sweeper.metrics)
	}
}

// sweepTotalTimeout cancels a run whose request has exceeded TotalTimeout, and reports whether it
// has. If the response has begun, this aborts the client's connection.
func (sweeper *sweeper) sweepTotalTimeout(c *client, current inflight.Run, now time.Duration) (isOver bool) {
	const exempt = inflight.Tunnel | inflight.WebSocket | inflight.Events
	deadline := time.Duration(c.totalDeadline.Load()) // loaded after current, so it does not belong to an earlier request
	if deadline == 0 || now <= deadline || current.Has(exempt) {
		return false
	}
	cancelMatching(&c.slot, current, cause.TotalTimeout, sweeper.metrics, func(latest inflight.Run) bool {
		return latest.Number == current.Number && !latest.Has(exempt)
	})
	return true
}

// sweepBuffering cancels the reading of a body that is buffered before the first run of its request, if the
// request has lasted longer than TotalTimeout.
func (sweeper *sweeper) sweepBuffering(c *client, now time.Duration) {
	isOver := func() bool {
		deadline := time.Duration(c.totalDeadline.Load())
		return deadline != 0 && now > deadline
	}
	if isOver() {
		c.body.CancelBuffering(isOver)
	}
}

// sweepPath checks the network path of a run to its owner. If the path is dead, it cancels the run
// and returns true. If the run uses a multiplexed stream, it fails all streams of the session.
func (sweeper *sweeper) sweepPath(c *client, current inflight.Run, now time.Duration) (dead bool) {
	conn := c.slot.Conn.Load()
	if conn.Mux != nil && now-c.runSeenAt >= peerpath.PingAfter {
		sweeper.peerPaths.Ping(conn.Mux)
	}
	if now < c.nextPathCheck {
		return false
	}
	if dead, c.nextPathCheck = sweeper.peerPaths.IsDead(conn, now); !dead {
		return false
	}
	cancelRun(&c.slot, current, cause.PathDead, sweeper.metrics)
	if conn.Mux != nil {
		conn.Mux.FailSession(errPathDead)
	}
	return true
}

// eachConnToPeers yields the connections to other nodes that the requests of the current sweep use.
func (sweeper *sweeper) eachConnToPeers(yield func(*connpool.Conn) bool) {
	for _, c := range sweeper.clients {
		if c.slot.Load().Kind != route.Remote {
			continue
		}
		if conn := c.slot.Conn.Load(); conn != nil && !yield(conn) {
			return
		}
	}
}
