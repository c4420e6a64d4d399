package proxy

import (
	"math"
	"net"
	"time"

	"shardway/proxy/appsilence"
	"shardway/proxy/cause"
	"shardway/proxy/connpool"
	"shardway/proxy/connset"
	"shardway/proxy/inflight"
	"shardway/proxy/peerpath"
	"shardway/proxy/route"
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
	// drain. Its client will probably reuse a connection that was used very recently, and a close
	// could collide with the next request.
	drainIdleTimeout = time.Second
	// drainStreamTimeout is the same time for a connection from another node during Shutdown. It is
	// shorter, because that node already has a shard map without this node, or is about to apply
	// one.
	drainStreamTimeout = 250 * time.Millisecond
	// streamEndTimeout is how long an event stream may continue after its end was requested, until
	// the end of the present event.
	streamEndTimeout = wsession.EndTimeout
)

// mustSweepAll reports whether the next sweep must include quiescent WebSockets. While the node is
// leaving, each of them has its own deadline. Before a peer is declared unresponsive, all
// connections to it must be checked.
func (s *Server) mustSweepAll() bool {
	isLeaving := s.lifecycle.isStopping() || s.lifecycle.isDraining()
	pathCheckDue := s.peerPaths.NeedsCompleteSweep(s.clock.Now())
	return isLeaving || pathCheckDue
}

// sweep checks the open connections, and closes or parks those that have been idle for long. It
// starts disconnect watches for requests that have run for some time. It detects apps that do not
// respond, and runs whose shard has moved. Without complete, clients does not contain quiescent
// WebSockets. Only the sweeping goroutine calls it.
func (s *Server) sweep(clients []*client, complete bool) {
	now := s.clock.Now()
	table, settings := s.options.Cluster.Table(), s.settings.Load()
	s.sweptClients = clients
	s.peerPaths.Begin(complete, now)
	s.appSilence.BeginSweep(now)
	parksLeft := maxParksPerSweep
	for _, c := range clients {
		if session := c.session.Load(); session != nil {
			s.sweepSession(c, session, now)
		}
		s.sweepRun(c, table, settings, now)
		if s.sweepIdle(c, settings, now, parksLeft > 0) {
			parksLeft--
		}
	}
	s.appSilence.EndSweep()
	idleLimit := time.Duration(math.MaxInt64)
	if s.lifecycle.isDraining() {
		idleLimit = drainIdleTimeout
	}
	s.conns.SweepParked(now, idleLimit)
	if now-s.lastMaintenance >= time.Second {
		s.maintain(now)
	}
}

// sweepIdle checks a connection that waits for its next request. It closes the connection if the
// node is leaving, requests to park it, or lets its goroutine check the idle timeout. It parks a
// connection only with mayPark, and reports whether it has requested that.
func (s *Server) sweepIdle(c *client, settings *Settings, now time.Duration, mayPark bool) (requestedPark bool) {
	idleStart := time.Duration(c.idleStart.Load())
	if idleStart == 0 {
		return false // a request is in progress
	}
	idleTime := now - idleStart
	switch {
	case idleTime >= s.idleLimit(c):
		c.conn.StopWaiting()
	case mayPark && c.canPark.Load() && idleTime >= time.Duration(c.parkDelay.Load()):
		c.requestPark()
		return true
	case c.loopClient.Loop() != nil && idleTime >= settings.IdleTimeout:
		c.loopClient.Wake() // its goroutine checks the idle timeout
	}
	return false
}

// maintain does the work of a sweep that is necessary only about once per second: it balances the
// event loops, updates the load statistics, and closes old idle connections.
func (s *Server) maintain(now time.Duration) {
	s.loops.Balance(now - s.lastMaintenance)
	s.lastMaintenance = now
	if handover, ok := s.webSockets.summary.TakeComplete(time.Now()); ok && s.options.OnHandover != nil {
		s.options.OnHandover(handover)
	}
	s.load.Update(time.Now())
	s.upstreams.closeIdleOlderThan(maxIdleAge, s.options.KeepUpstream)
}

// idleLimit returns how long a connection may be idle before it is closed because the node is
// leaving.
func (s *Server) idleLimit(c *client) time.Duration {
	switch {
	case c.isDraining():
		return drainIdleTimeout
	case c.ingress != "" && s.lifecycle.isStopping():
		return drainStreamTimeout
	}
	return math.MaxInt64
}

// sweepRun checks the run of a connection: its path, its deadlines, and whether its shard has
// moved. It only registers a run that it sees for the first time.
func (s *Server) sweepRun(c *client, table *route.Table, settings *Settings, now time.Duration) {
	current := c.slot.Load()
	if current.IsCancelled() && current.Kind == route.Local && current.Has(inflight.Resumable) {
		s.sweepStuckStream(c, current, now)
	}
	if current.Kind == 0 || current.IsCancelled() {
		return
	}
	if current.Number != c.lastSweptRun {
		c.lastSweptRun, c.runSeenAt, c.moveSeenAt, c.nextPathCheck = current.Number, now, 0, now+peerpath.CheckAfter
		return
	}
	if c.loopClient.Loop() != nil {
		c.loopClient.Wake() // a goroutine waits for the response now, and watches the client
		return
	}
	c.disconnect.Start()
	if current.Kind == route.Remote && s.sweepPath(c, current, now) {
		return
	}
	s.sweepLongResponse(c, current, now)
	if s.awaitsLocalApp(c, current) {
		s.countWaiting(c, current)
	}
	s.sweepDeadline(c, current, table, settings, now)
}

// sweepLongResponse treats a response that has been in progress for longResponse as a stream.
// Tunnels and event streams of the local app already count as streams.
func (s *Server) sweepLongResponse(c *client, current inflight.Run, now time.Duration) {
	if !current.Has(inflight.ResponseBegun) || now-c.runSeenAt <= longResponse {
		return
	}
	switch current.Kind {
	case route.Local:
		if !current.Has(inflight.Tunnel | inflight.Events) {
			s.countAsStream(c, current)
		}
	case route.Remote:
		if key := c.slowResponse.Swap(0); key != 0 {
			s.largeResponses.Record(key, true) // further requests to this path use connections instead of streams
		}
	case route.Held:
	}
}

// awaitsLocalApp reports whether the app of this node has received the whole request, and its
// response has not begun.
func (s *Server) awaitsLocalApp(c *client, current inflight.Run) bool {
	const respondsOrRelays = inflight.ResponseBegun | inflight.Tunnel | inflight.Events | inflight.WebSocket
	return current.Kind == route.Local && !current.Has(respondsOrRelays) && !c.body.IsBeingRead()
}

// countWaiting counts a run that waits for the app, to detect that the app does not respond at all.
func (s *Server) countWaiting(c *client, current inflight.Run) {
	var conn net.Conn // nil means that the app runs in this process
	if upstream := c.slot.Conn.Load(); upstream != nil && !upstream.InProcess {
		conn = upstream.NetConn()
	}
	s.appSilence.CountWaiting(c.runSeenAt, current.Has(inflight.Safe), conn)
}

// sweepDeadline ends a run that must not continue: because its shard has moved, because the node is
// leaving, or because the app has not responded within FirstByteTimeout.
func (s *Server) sweepDeadline(c *client, current inflight.Run, table *route.Table, settings *Settings, now time.Duration) {
	switch {
	case current.Has(inflight.WebSocket):
		s.sweepRelay(c, current, table, now)
		return
	case current.IsEndless():
		s.sweepStream(c, current, table, settings.StreamGrace, now)
		return
	case s.lifecycle.isStopping() && s.isLongPoll(c, current, now):
		s.cancelBeforeResponse(c, current, cause.Leaving)
		return
	}
	if current.Kind != route.Local || current.Has(inflight.ResponseBegun) {
		return // the owner enforces the timeout of a forwarded request
	}
	if c.body.IsBeingRead() {
		c.runSeenAt = now // the timeout starts at the end of the request body
		return
	}
	hasTimeout := settings.FirstByteTimeout >= 0
	if hasTimeout && now-c.runSeenAt > settings.FirstByteTimeout {
		s.cancelBeforeResponse(c, current, cause.Timeout)
	}
}

// sweepPath checks the network path of a run to its owner. If the path is dead, it cancels the run
// and returns true. If the run uses a multiplexed stream, it fails all streams of the session.
func (s *Server) sweepPath(c *client, current inflight.Run, now time.Duration) (dead bool) {
	conn := c.slot.Conn.Load()
	if conn.Mux != nil && now-c.runSeenAt >= peerpath.PingAfter {
		s.peerPaths.Ping(conn.Mux)
	}
	if now < c.nextPathCheck {
		return false
	}
	if dead, c.nextPathCheck = s.peerPaths.IsDead(conn, now); !dead {
		return false
	}
	s.cancelRun(c, current, cause.PathDead)
	if conn.Mux != nil {
		conn.Mux.FailSession(errPathDead)
	}
	return true
}

// eachConnToPeers yields the connections to other nodes that the requests of the current sweep use.
func (s *Server) eachConnToPeers(yield func(*connpool.Conn) bool) {
	for _, c := range s.sweptClients {
		if c.slot.Load().Kind != route.Remote {
			continue
		}
		if conn := c.slot.Conn.Load(); conn != nil && !yield(conn) {
			return
		}
	}
}

// countAsStream removes the connection of a long response from the limit of upstream connections,
// and counts it as a stream instead.
func (s *Server) countAsStream(c *client, current inflight.Run) {
	alreadyCounted := c.streamRun == current.Number
	if alreadyCounted || s.upstreams.longLived.IsFull() {
		return
	}
	conn := c.slot.Conn.Load()
	isStillRunning := func() bool {
		latest := c.slot.Load()
		return latest.Kind != 0 && latest.Number == current.Number
	}
	if conn.Pool.Detach(conn, isStillRunning) {
		c.streamRun = current.Number
	}
}

// sweepStream ends a tunnel or an event stream after a grace period. The period starts when its
// shard has moved, or when its node starts to leave. An event stream has up to streamEndTimeout
// more, so that it can end between two events.
func (s *Server) sweepStream(c *client, current inflight.Run, table *route.Table, grace, now time.Duration) {
	cancelCause := s.causeOfStreamEnd(c, current, table)
	if cancelCause == cause.None {
		c.moveSeenAt = 0
		return
	}
	if c.moveSeenAt == 0 {
		c.moveSeenAt = now
	}
	if !current.Has(inflight.Events) {
		if now-c.moveSeenAt >= grace {
			s.cancelRun(c, current, cancelCause)
		}
		return
	}
	overdue := now - c.moveSeenAt - s.eventStreamGrace(c, current, cancelCause, grace)
	if overdue < 0 {
		return
	}
	hasEnded := c.slot.Events.RequestEnd(current.Number)
	if hasEnded || overdue >= streamEndTimeout {
		s.cancelRun(c, current, cancelCause)
	}
}

// causeOfStreamEnd returns why a tunnel or an event stream must end soon: its shard has moved, or
// the node is leaving. It returns cause.None if the stream may continue.
func (s *Server) causeOfStreamEnd(c *client, current inflight.Run, table *route.Table) cause.Cause {
	hasShard := !current.Has(inflight.Keyless) && int(current.Shard) < table.Shards()
	if hasShard && !runsAtRoute(current, c.slot.Node.Load(), table.Route(current.Shard)) {
		return cause.ShardMoved
	}
	if s.lifecycle.isStopping() {
		return cause.Leaving
	}
	return cause.None
}

// eventStreamGrace returns the grace period of an event stream, given the grace period of other
// streams.
func (s *Server) eventStreamGrace(c *client, current inflight.Run, cancelCause cause.Cause, grace time.Duration) time.Duration {
	isResumable := c.slot.Events.IsResumable(current.Number)
	if cancelCause == cause.ShardMoved && isResumable {
		return 0 // the new owner resumes it, so there is no reason to wait
	}
	isOnlyIngress := cancelCause == cause.Leaving && current.Kind == route.Remote
	if isOnlyIngress && !isResumable {
		// The owner stays, so the stream continues until shortly before the end of the drain.
		latestEnd := time.Duration(s.lifecycle.drainDeadline.Load()) - 2*streamEndTimeout
		return max(grace, latestEnd-c.moveSeenAt)
	}
	return grace
}

// sweepStuckStream aborts the connection of a client that does not read, and thereby delays the end
// of a cancelled run. The next owner of the shard may be waiting for that end.
func (s *Server) sweepStuckStream(c *client, current inflight.Run, now time.Duration) {
	if c.cancelledRun != current.Number {
		c.cancelledRun, c.cancelledAt = current.Number, now
		return
	}
	if now-c.cancelledAt >= streamEndTimeout && c.slot.Load().Number == current.Number {
		_ = c.inbound.Abort() // its goroutine receives an error
	}
}

// runsAtRoute reports whether a request runs where the table now routes its shard. node is the node
// to which the request was forwarded. While the shard is held because its owner is paused or has no
// lease, the result is true, because the owner has not changed. While the shard is held for another
// reason, it is true only for a forwarded request.
func runsAtRoute(current inflight.Run, node *string, dest *route.Route) bool {
	switch dest.Kind {
	case route.Held:
		ownerKeepsShard := dest.Reason == route.ReasonNoLease || dest.Reason == route.ReasonPaused
		return ownerKeepsShard || current.Kind == route.Remote
	case route.Remote:
		return current.Kind == route.Remote && node != nil && *node == dest.Node
	case route.Local:
	}
	return current.Kind == route.Local
}

// cancelRun cancels current, if it is still in progress.
func (s *Server) cancelRun(c *client, current inflight.Run, cancelCause cause.Cause) {
	s.cancelIn(&c.slot, current, cancelCause)
}

// cancelBeforeResponse cancels current unless its response has begun since current was loaded. The
// slot checks and cancels in one atomic step. So a response either continues undisturbed or sends
// no byte.
func (s *Server) cancelBeforeResponse(c *client, current inflight.Run, cancelCause cause.Cause) {
	s.cancelMatching(&c.slot, current, cancelCause, func(latest inflight.Run) bool {
		return latest.Number == current.Number && !latest.Has(inflight.ResponseBegun)
	})
}

// cancelIn cancels current of a slot, if it is still in progress.
func (s *Server) cancelIn(slot *inflight.Slot, current inflight.Run, cancelCause cause.Cause) {
	s.cancelMatching(slot, current, cancelCause, func(latest inflight.Run) bool { return latest.Number == current.Number })
}

// cancelMatching cancels the run in a slot if match returns true for the latest content of the
// slot. current is the run that the caller has seen. An event stream that its next owner resumes is
// not counted as aborted.
func (s *Server) cancelMatching(slot *inflight.Slot, current inflight.Run, cancelCause cause.Cause, match func(latest inflight.Run) bool) {
	closes, cancelled := slot.Cancel(cancelCause, func(latest inflight.Run, _ string) bool { return match(latest) }, nil)
	if !cancelled {
		return
	}
	nextOwnerResumes := current.Has(inflight.Events) && cancelCause == cause.ShardMoved && slot.Events.IsResumable(current.Number)
	if !nextOwnerResumes {
		s.metrics.CountAborted(cancelCause.String(), 1)
	}
	inflight.CloseAll(closes)
}

// AppSilence reports whether the app hangs. A call may take some milliseconds, so it should be called
// at most once a second.
func (s *Server) AppSilence() appsilence.Report {
	// If there are no connections, there are no sweeps, so the last result may be outdated.
	return s.appSilence.Report(s.clock.Exact() - 20*sweepEvery)
}
