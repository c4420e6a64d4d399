package proxy

import (
	"math"
	"net"
	"time"

	"shardway/proxy/appsilence"
	"shardway/proxy/h1"
	"shardway/proxy/route"
)

const (
	// maxIdleAge is how long an idle connection to the app or to a node is kept.
	maxIdleAge = time.Minute
	// longResponse is the time after which a response that has begun is treated as a stream.
	longResponse = 10 * time.Second
	// drainIdleTimeout is how long a client connection must be idle before it is closed during a
	// drain. Its client will probably reuse a connection that was used very recently, and a close
	// could collide with the next request.
	drainIdleTimeout = time.Second
	// drainStreamTimeout is the same time for a connection from another node during Shutdown. It is
	// shorter, because that node already has a shard map without this node, or is about to apply
	// one.
	drainStreamTimeout = 250 * time.Millisecond
)

// mustSweepAll reports whether the next sweep must include quiescent WebSockets. While the node is
// leaving, each of them has its own deadline. Before a peer is declared unresponsive, all
// connections to it must be checked.
func (s *Server) mustSweepAll() bool {
	return s.pathDetector.nextComplete > 0 && s.clock.Now() >= s.pathDetector.nextComplete || s.closing.Load() || s.draining.Load()
}

// sweep checks the open connections. It starts disconnect watches for requests that have run for
// some time. It detects apps that do not respond, WebSockets whose shard has moved, and idle
// connections during a drain. Without complete, clients does not contain quiescent WebSockets. Only
// the sweeping goroutine calls it.
func (s *Server) sweep(clients []*client, complete bool) {
	now := s.clock.Now()
	table, settings := s.options.Cluster.Table(), s.settings.Load()
	s.pathDetector.begin(clients, complete, now)
	s.appSilence.BeginSweep(now)
	parksLeft := maxParksPerSweep
	for _, c := range clients {
		if session := c.session.Load(); session != nil {
			s.sweepSession(c, session, now)
		}
		s.sweepRun(c, table, settings, now)
		since := time.Duration(c.idleStart.Load())
		switch {
		case since == 0:
		case now-since >= s.idleLimit(c):
			c.conn.StopWaiting()
		case parksLeft > 0 && c.canPark.Load() && now-since >= time.Duration(c.parkDelay.Load()):
			c.requestPark()
			parksLeft--
		case c.loop.Load() != nil && now-since >= settings.IdleTimeout:
			c.wakeLoop() // its goroutine checks the idle timeout
		}
	}
	s.appSilence.EndSweep()
	idleLimit := time.Duration(math.MaxInt64)
	if s.draining.Load() {
		idleLimit = drainIdleTimeout
	}
	s.conns.sweepParked(now, idleLimit)
	if now-s.lastMaintenance < time.Second {
		return
	}
	s.loops.balance(now - s.lastMaintenance)
	s.lastMaintenance = now
	if handover, ok := s.webSockets.summary.TakeComplete(time.Now()); ok && s.options.OnHandover != nil {
		s.options.OnHandover(handover)
	}
	s.load.Update(time.Now())
	if s.upstream != nil {
		s.upstream.CloseIdleOlderThan(maxIdleAge, s.options.KeepUpstream)
	}
	s.peers.CloseIdleOlderThan(maxIdleAge)
}

// idleLimit returns how long a connection may be idle before it is closed because the node is
// leaving.
func (s *Server) idleLimit(c *client) time.Duration {
	switch {
	case c.isDraining():
		return drainIdleTimeout
	case c.ingress != "" && s.closing.Load():
		return drainStreamTimeout
	}
	return math.MaxInt64
}

// sweepRun checks the run of a connection: its path, its deadlines, and whether its shard has
// moved.
func (s *Server) sweepRun(c *client, table *route.Table, settings *Settings, now time.Duration) {
	current := c.slot.load()
	if current.cause != causeNone && current.kind == route.Local && current.flags&slotResumable != 0 {
		s.sweepStuckStream(c, current, now)
	}
	if current.kind == 0 || current.cause != causeNone {
		return
	}
	if current.number != c.lastSweptRun {
		c.lastSweptRun, c.runSeenAt, c.moveSeenAt, c.nextPathCheck = current.number, now, 0, now+pathCheckAfter
		return
	}
	if c.loop.Load() != nil {
		c.wakeLoop() // a goroutine waits for the response now, and watches the client
		return
	}
	c.disconnect.start()
	if current.kind == route.Remote && s.sweepPath(c, current, now) {
		return
	}
	if current.kind == route.Local && current.flags&(slotResponseBegun|slotTunnel|slotEvents) == slotResponseBegun && now-c.runSeenAt > longResponse {
		s.countAsStream(c, current)
	}
	if current.kind == route.Remote && current.flags&slotResponseBegun != 0 && now-c.runSeenAt > longResponse {
		if key := c.slowResponse.Swap(0); key != 0 {
			s.largeResponses.Record(key, true) // further requests to this path use connections instead of streams
		}
	}
	if current.kind == route.Local && current.flags&(slotResponseBegun|slotTunnel|slotEvents|slotWebSocket) == 0 && !c.body.reading.Load() {
		var conn net.Conn // nil means that the app runs in this process
		if upstream := c.slot.conn.Load(); upstream != nil && !upstream.InProcess {
			conn = upstream.NetConn()
		}
		s.appSilence.CountWaiting(c.runSeenAt, current.flags&slotSafe != 0, conn)
	}
	switch {
	case current.flags&slotWebSocket != 0:
		s.sweepRelay(c, current, table, now)
	case current.isEndless():
		s.sweepStream(c, current, table, settings.StreamGrace, now)
	case s.closing.Load() && s.isLongPoll(c, current, now):
		s.cancelBeforeResponse(c, current, causeLeaving)
	case current.flags&slotResponseBegun != 0 || current.kind != route.Local:
	case c.body.reading.Load():
		c.runSeenAt = now
	case settings.FirstByteTimeout >= 0 && now-c.runSeenAt > settings.FirstByteTimeout:
		s.cancelBeforeResponse(c, current, causeTimeout)
	}
}

// sweepPath checks the network path of a run to its owner. If the path is dead, it cancels the run
// and returns true. If the run uses a multiplexed stream, it fails all streams of the session.
func (s *Server) sweepPath(c *client, current run, now time.Duration) (dead bool) {
	conn := c.slot.conn.Load()
	if conn.Mux != nil && now-c.runSeenAt >= pingAfter {
		s.pathDetector.ping(conn.Mux)
	}
	if now < c.nextPathCheck || !s.pathDetector.isDead(c, conn, now) {
		return false
	}
	s.cancelRun(c, current, causePathDead)
	if conn.Mux != nil {
		conn.Mux.FailSession(errPathDead)
	}
	return true
}

// countAsStream removes the connection of a long response from the limit of upstream connections,
// and counts it as a stream instead.
func (s *Server) countAsStream(c *client, current run) {
	if c.streamRun == current.number || s.streams.IsFull() {
		return
	}
	conn := c.slot.conn.Load()
	stillRunning := func() bool { now := c.slot.load(); return now.kind != 0 && now.number == current.number }
	if conn.Pool.Detach(conn, stillRunning) {
		c.streamRun = current.number
	}
}

// sweepStream ends a tunnel or an event stream after a grace period. The period starts when its
// shard has moved, or when its node starts to leave. An event stream has up to streamEndTimeout more, so
// that it can end between two events. If a leaving node is only the ingress of an event stream, the
// stream continues until shortly before drainDeadline.
func (s *Server) sweepStream(c *client, current run, table *route.Table, grace, now time.Duration) {
	cancelCause := causeShardMoved
	if current.flags&slotKeyless != 0 || int(current.shard) >= table.Shards() || runsAtRoute(current, c.slot.node.Load(), table.Route(current.shard)) {
		if cancelCause = causeLeaving; !s.closing.Load() {
			c.moveSeenAt = 0
			return
		}
	}
	if c.moveSeenAt == 0 {
		c.moveSeenAt = now
	}
	if current.flags&slotEvents != 0 {
		resumable := c.slot.events.isResumable(current.number)
		switch {
		case cancelCause == causeShardMoved && resumable:
			grace = 0 // the new owner resumes it, so there is no reason to wait
		case cancelCause == causeLeaving && current.kind == route.Remote && !resumable:
			grace = max(grace, time.Duration(s.drainDeadline.Load())-2*streamEndTimeout-c.moveSeenAt)
		}
	}
	overdue := now - c.moveSeenAt - grace
	if overdue < 0 || current.flags&slotEvents != 0 && !c.slot.events.requestEnd(current.number) && overdue < streamEndTimeout {
		return
	}
	s.cancelRun(c, current, cancelCause)
}

// sweepStuckStream aborts the connection of a client that does not read, and thereby delays the end
// of a cancelled run. The next owner of the shard may be waiting for that end.
func (s *Server) sweepStuckStream(c *client, current run, now time.Duration) {
	if c.cancelledRun != current.number {
		c.cancelledRun, c.cancelledAt = current.number, now
		return
	}
	if now-c.cancelledAt >= streamEndTimeout && c.slot.load().number == current.number {
		_ = c.conn.Abort() // its goroutine receives an error
	}
}

// runsAtRoute reports whether the run is at the destination to which the table routes its shard. If
// the table contains no destination because the owner has lost its lease or is paused, the run is
// treated as still routed there, because the owner has not lost the shard. If the table contains no
// destination for another reason, the same applies to a run at another node.
func runsAtRoute(current run, node *string, dest *route.Route) bool {
	switch dest.Kind {
	case route.Held:
		return dest.Reason == route.ReasonNoLease || dest.Reason == route.ReasonPaused || current.kind == route.Remote
	case route.Remote:
		return current.kind == route.Remote && node != nil && *node == dest.Node
	case route.Local:
	}
	return current.kind == route.Local
}

// cancelRun cancels current, if it is still in progress.
func (s *Server) cancelRun(c *client, current run, cancelCause cause) {
	s.cancelIn(&c.slot, current, cancelCause)
}

// cancelBeforeResponse cancels current unless its response has begun since current was
// loaded. The slot checks and cancels in one atomic step. So a response either continues
// undisturbed or sends no byte.
func (s *Server) cancelBeforeResponse(c *client, current run, cancelCause cause) {
	s.cancelMatching(&c.slot, current, cancelCause, func(now run) bool { return now.number == current.number && now.flags&slotResponseBegun == 0 })
}

// cancelIn cancels current of a slot, if it is still in progress.
func (s *Server) cancelIn(slot *slot, current run, cancelCause cause) {
	s.cancelMatching(slot, current, cancelCause, func(now run) bool { return now.number == current.number })
}

// cancelMatching cancels the run in a slot if match returns true for the present content of the
// slot. current is the run that the caller has seen.
func (s *Server) cancelMatching(slot *slot, current run, cancelCause cause, match func(now run) bool) {
	closes, cancelled := slot.cancel(cancelCause, func(now run, _ string) bool { return match(now) }, []*h1.Conn(nil))
	if cancelled {
		if current.flags&slotEvents == 0 || cancelCause != causeShardMoved || !slot.events.isResumable(current.number) {
			s.metrics.CountAborted(cancelCause.String(), 1)
		}
		closeAll(closes)
	}
}

// AppSilence reports whether the app hangs. A call may take some milliseconds, so it should be called
// at most once a second.
func (s *Server) AppSilence() appsilence.Report {
	// If there are no connections, there are no sweeps, so the last result may be outdated.
	return s.appSilence.Report(s.clock.Exact() - 20*sweepEvery)
}
