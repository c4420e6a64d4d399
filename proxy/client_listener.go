package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"shardway/internal/workerpool"
	"shardway/proxy/connset"
)

// clientListener is the state shared by the client connections of one listener.
type clientListener struct {
	server  *Server
	limit   *connset.Limit
	workers *workerpool.Pool[job]
	watcher connset.Watcher // watches the parked connections
}

// job is a connection that a goroutine of the worker pool serves.
type job struct {
	connset.Resumed         // a connection that was accepted, or was parked
	client          *client // a client that an event loop has handed off; nil means that the goroutine creates a client
}

// newClientListener returns the shared state for a listener whose lifetime is ctx.
func newClientListener(ctx context.Context, s *Server) *clientListener {
	ln := &clientListener{server: s, limit: connset.NewLimit(s.options.MaxConns, s.options.Log, s.evictIdle)}
	ln.workers = workerpool.New(ln.serve)
	ln.watcher = connset.Watcher{
		Ctx: ctx, Clock: &s.clock.Clock, Goroutines: ln.workers.Group(),
		Resume: func(next connset.Resumed) { ln.workers.Submit(job{Resumed: next}) },
	}
	return ln
}

// submit serves a connection that has just been accepted, in another goroutine. At the limit of
// connections, it blocks.
func (ln *clientListener) submit(conn net.Conn) {
	ln.server.conns.AddAccepted()
	ln.limit.Acquire()
	ln.workers.Submit(job{Resumed: connset.Resumed{Conn: conn}})
}

// serve runs a job in a goroutine of the worker pool.
func (ln *clientListener) serve(next job) {
	ctx := ln.watcher.Ctx
	if next.client != nil {
		next.client.serveOn(ln.workers.Group(), ln.onConnEnd)
	} else if ln.server.handshakeTLS(ctx, next.Conn) {
		c := newClient(ctx, ln.server, next.Conn, "")
		ln.initClient(c, next.Resumed)
		c.serveAll(ln.workers.Group(), ln.onConnEnd)
	} else {
		ln.onConnEnd()
	}
}

// onConnEnd is called when an accepted connection has ended.
func (ln *clientListener) onConnEnd() {
	ln.server.conns.RemoveAccepted()
	ln.limit.Release()
}

// initClient prepares a client for a connection of this listener, which is new or was parked.
func (ln *clientListener) initClient(c *client, next connset.Resumed) {
	c.listener = ln
	if c.conn.ReadsSocketDirectly() && !c.server.upstreams.IsGateway() && c.server.options.Handler == nil && c.server.options.Processes == nil && !c.server.options.Disable.EventLoop {
		c.loopClient.Open(&c.server.loops)
	}
	c.idle.canPark.Store(c.conn.ReadsSocketDirectly() && c.server.options.Handler == nil && c.server.options.Processes == nil && !c.server.options.Disable.Parking) // an app in this process may still read from the connection
	c.idle.parkDelay.Store(int64(c.server.parkDelays.Delay(next.ReturnedSoon)))
	if next.MustStop {
		c.idle.evicted.Store(true)
		c.conn.StopWaiting()
	}
}

// resume gives a client that has left its event loop to a worker goroutine.
func (ln *clientListener) resume(c *client) {
	ln.workers.Submit(job{client: c})
	ln.workers.Group().Done()
}

// handshakeTLS performs the TLS handshake of a connection that uses TLS, within HeaderTimeout. If
// it returns false, the connection has been closed.
func (s *Server) handshakeTLS(ctx context.Context, conn net.Conn) bool {
	c, ok := conn.(*tls.Conn)
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, s.settings.Load().HeaderTimeout)
	defer cancel()
	stop := context.AfterFunc(s.lifecycle.AbortCtx, cancel) //nolint:contextcheck // ends with either
	defer stop()
	s.clock.Tick()
	s.conns.AddHandshake(c, cancel, s.clock.Now())
	defer s.conns.RemoveHandshake(c)
	if err := c.HandshakeContext(ctx); err != nil {
		s.options.Log.Debug().Err(err).Stringer("addr", conn.RemoteAddr()).Msg("handshake failed")
		_ = conn.Close()
		return false
	}
	return true
}

// evictIdle closes up to maxCount client connections that have been idle for at least minIdle,
// beginning with the longest idle ones.
func (s *Server) evictIdle(minIdle time.Duration, maxCount int) {
	s.clock.Tick() // if there are only handshakes, no sweep updates the clock
	evicted := s.conns.EvictIdle(s.clock.Now()-minIdle, maxCount, evictableSince, (*client).evict)
	s.metrics.ShedIdle.Add(uint64(evicted))
}

// evictableSince returns when a client became idle. It returns false during a request, and for a
// connection from another node.
func evictableSince(c *client) (since time.Duration, isIdle bool) {
	since = c.idle.since() // loaded once, because a request may begin or end at the same time
	return since, since != 0 && c.ingress == "" && !c.idle.evicted.Load()
}

// evict closes the connection of an idle client.
func (c *client) evict() {
	c.idle.evicted.Store(true)
	c.conn.StopWaiting()
}
