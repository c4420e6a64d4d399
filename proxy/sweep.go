package proxy

import (
	"math"
	"time"

	"shardway/proxy/h1"
	"shardway/proxy/route"
)

const (
	// maxIdleAge is how long an idle connection to the app or to a node is kept.
	maxIdleAge = time.Minute
	// longResponse is the duration after which a response that has begun counts as a stream.
	longResponse = 10 * time.Second
	// drainIdleTimeout is how long a client connection must be idle before it is closed for a
	// drain. A connection that was used very recently will probably be used again.
	drainIdleTimeout = time.Second
	// drainStreamTimeout is the same for a connection from another node, in Shutdown. That node
	// has the map without this node, or is about to apply it.
	drainStreamTimeout = 250 * time.Millisecond
)

// mustSweepAll reports whether the next sweep must include quiescent WebSockets. While the node
// leaves, each of them has a deadline of its own. To decide whether a peer is silent, all its
// connections must be included.
func (s *Server) mustSweepAll() bool {
	return s.pathDetector.nextComplete > 0 && s.clock.now() >= s.pathDetector.nextComplete || s.closing.Load() || s.draining.Load()
}

// sweep visits the open connections. It starts disconnect watches for requests that have run long
// enough, and detects apps that do not respond, WebSockets whose shard has moved, and idle
// connections during a drain. One goroutine at a time calls it. Without whole, quiescent
// WebSockets are not included.
func (s *Server) sweep(list []*client, whole bool) {
	now := s.clock.now()
	t, set := s.o.Cluster.Table(), s.set.Load()
	s.pathDetector.begin(list, whole, now)
	s.appWatch.begin(now)
	parks := maxParksPerSweep
	for _, c := range list {
		if k := c.session.Load(); k != nil {
			s.sweepSession(c, k, now)
		}
		s.sweepRun(c, t, set, now)
		since := time.Duration(c.idle.Load())
		switch {
		case since == 0:
		case now-since >= s.idleLimit(c):
			c.conn.StopIdle()
		case parks > 0 && c.canPark.Load() && now-since >= time.Duration(c.parkDelay.Load()):
			c.requestPark()
			parks--
		case c.loop.Load() != nil && now-since >= set.IdleTimeout:
			c.wakeLoop() // its goroutine knows how long it may be idle
		}
	}
	s.appWatch.end()
	patience := time.Duration(math.MaxInt64)
	if s.draining.Load() {
		patience = drainIdleTimeout
	}
	s.conns.sweepParked(now, patience)
	if now-s.lastReap < time.Second {
		return
	}
	s.loops.balance(now - s.lastReap)
	s.lastReap = now
	if seen, ok := s.webSockets.summary.over(time.Now()); ok && s.o.OnHandover != nil {
		s.o.OnHandover(seen)
	}
	s.load.look(time.Now())
	if s.upstream != nil {
		s.upstream.closeIdleOlderThan(maxIdleAge, s.o.KeepUpstream)
	}
	s.peers.reap(maxIdleAge)
}

// patience returns how long a connection may be idle before it is closed because the node is
// leaving.
func (s *Server) idleLimit(c *client) time.Duration {
	switch {
	case c.draining():
		return drainIdleTimeout
	case c.ingress != "" && s.closing.Load():
		return drainStreamTimeout
	}
	return math.MaxInt64
}

// sweepRun checks the run of a connection.
func (s *Server) sweepRun(c *client, t *route.Table, set *Settings, now time.Duration) {
	r := c.slot.load()
	if r.cause != causeNone && r.kind == route.Local && r.flags&slotResumable != 0 {
		s.sweepStuckStream(c, r, now)
	}
	if r.kind == 0 || r.cause != causeNone {
		return
	}
	if r.number != c.seenRun {
		c.seenRun, c.since, c.movedAt, c.nextPathCheck = r.number, now, 0, now+pathCheckAfter
		return
	}
	if c.loop.Load() != nil {
		c.wakeLoop() // a goroutine waits for the response now, and watches the client
		return
	}
	c.disconnect.start()
	if r.kind == route.Remote && s.sweepPath(c, r, now) {
		return
	}
	if r.kind == route.Local && r.flags&(slotAnswered|slotTunnel|slotEvents) == slotAnswered && now-c.since > longResponse {
		s.countAsStream(c, r)
	}
	if r.kind == route.Remote && r.flags&slotAnswered != 0 && now-c.since > longResponse {
		if key := c.slowResponse.Swap(0); key != 0 {
			s.sizes.note(key, true) // further requests to this path use connections instead of streams
		}
	}
	if r.kind == route.Local && r.flags&(slotAnswered|slotTunnel|slotEvents|slotWebSocket) == 0 && !c.body.reading.Load() {
		s.appWatch.waits(c.since, r.flags&slotSafe != 0, c.slot.conn.Load())
	}
	switch {
	case r.flags&slotWebSocket != 0:
		s.sweepRelay(c, r, t, now)
	case r.isEndless():
		s.sweepStream(c, r, t, set.StreamGrace, now)
	case s.closing.Load() && s.isLongPoll(c, r, now):
		s.cancelBeforeResponse(c, r, causeLeaving)
	case r.flags&slotAnswered != 0 || r.kind != route.Local:
	case c.body.reading.Load():
		c.since = now
	case set.FirstByteTimeout >= 0 && now-c.since > set.FirstByteTimeout:
		s.cancelBeforeResponse(c, r, causeTimeout)
	}
}

// sweepPath checks the network path of a run to its owner, and cancels the run if the path is
// dead. If the run uses a multiplexed stream, all streams of the session fail.
func (s *Server) sweepPath(c *client, r run, now time.Duration) (dead bool) {
	l := c.slot.conn.Load()
	if l.mux != nil && now-c.since >= pingAfter {
		s.pathDetector.ping(l.mux)
	}
	if now < c.nextPathCheck || !s.pathDetector.isDead(c, l, now) {
		return false
	}
	s.cancelRun(c, r, causePathDead)
	if l.mux != nil {
		l.mux.FailSession(errPathDead)
	}
	return true
}

// streamRun counts a response that takes long as a stream.
func (s *Server) countAsStream(c *client, r run) {
	if c.streamRun == r.number || s.streams.full() {
		return
	}
	l := c.slot.conn.Load()
	runs := func() bool { now := c.slot.load(); return now.kind != 0 && now.number == r.number }
	if l.pool.detach(l, runs) {
		c.streamRun = r.number
	}
}

// sweepStream ends a tunnel or an event stream whose shard has been elsewhere for the grace
// period, or whose node has been stopping for that long. An event stream may continue for up to
// endWait, so that it ends between two events. If a stopping node is only the ingress of an event
// stream, the stream continues until shortly before the deadline: see leaveBy.
func (s *Server) sweepStream(c *client, r run, t *route.Table, grace, now time.Duration) {
	why := causeShardMoved
	if r.flags&slotKeyless != 0 || int(r.shard) >= t.Shards() || isAtRoute(r, c.slot.node.Load(), t.Route(r.shard)) {
		if why = causeLeaving; !s.closing.Load() {
			c.movedAt = 0
			return
		}
	}
	if c.movedAt == 0 {
		c.movedAt = now
	}
	if r.flags&slotEvents != 0 {
		kept := c.slot.events.isResumable(r.number)
		switch {
		case why == causeShardMoved && kept:
			grace = 0 // the new owner resumes it
		case why == causeLeaving && r.kind == route.Remote && !kept:
			grace = max(grace, time.Duration(s.leaveBy.Load())-2*endWait-c.movedAt)
		}
	}
	late := now - c.movedAt - grace
	if late < 0 || r.flags&slotEvents != 0 && !c.slot.events.requestEnd(r.number) && late < endWait {
		return
	}
	s.cancelRun(c, r, why)
}

// sweepStuckStream closes a client that reads nothing and thereby delays the end of a cancelled
// run. The next owner of the shard may be waiting for that.
func (s *Server) sweepStuckStream(c *client, r run, now time.Duration) {
	if c.cancelledRun != r.number {
		c.cancelledRun, c.cancelledAt = r.number, now
		return
	}
	if now-c.cancelledAt >= endWait && c.slot.load().number == r.number {
		_ = c.conn.Abort() // its goroutine gets an error
	}
}

// isAtRoute reports whether the run is at the place to which the table routes its shard, as far
// as that is known. A node that has lost its lease has not lost the shard.
func isAtRoute(r run, node *string, dest *route.Route) bool {
	switch dest.Kind {
	case route.Held:
		return dest.Reason == route.ReasonNoLease || dest.Reason == route.ReasonPaused || r.kind == route.Remote
	case route.Remote:
		return r.kind == route.Remote && node != nil && *node == dest.Node
	case route.Local:
	}
	return r.kind == route.Local
}

// cancelRun cancels the run r, if it is still in progress.
func (s *Server) cancelRun(c *client, r run, why cause) { s.cancelIn(&c.slot, r, why) }

// cancelBeforeResponse cancels the run r, unless its response has begun since r was loaded. The
// slot decides in one step: a response either continues undisturbed or sends no byte.
func (s *Server) cancelBeforeResponse(c *client, r run, why cause) {
	s.cancelMatching(&c.slot, r, why, func(now run) bool { return now.number == r.number && now.flags&slotAnswered == 0 })
}

// cancelIn cancels the run r of a slot, if it is still in progress.
func (s *Server) cancelIn(in *slot, r run, why cause) {
	s.cancelMatching(in, r, why, func(now run) bool { return now.number == r.number })
}

// cancelMatching cancels the run r of a slot if match accepts what the slot contains at that
// moment.
func (s *Server) cancelMatching(in *slot, r run, why cause, match func(now run) bool) {
	closes, cut := in.cancel(why, func(now run, _ string) bool { return match(now) }, []*h1.Conn(nil))
	if cut {
		if r.flags&slotEvents == 0 || why != causeShardMoved || !in.events.isResumable(r.number) {
			s.metrics.cut(why.String(), 1)
		}
		closeAll(closes)
	}
}
