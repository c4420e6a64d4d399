package proxy

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"time"

	"shardway/internal/rawio"
	"shardway/proxy/connset"
	"shardway/proxy/forwarded"
	"shardway/proxy/h1"
	"shardway/proxy/inbound"
)

// CountBuffers counts in n the bytes of the buffers that connections use. It must be called before
// the first connection.
func (s *Server) CountBuffers(n *atomic.Int64) { s.buffers.BytesInUse = n }

// CountSpliced counts in n the bytes that the kernel moves from connection to connection. It must
// be called before the first connection.
func (s *Server) CountSpliced(n *atomic.Int64) { s.buffers.BytesSpliced = n }

// ParkAfter sets after which idle time connections are parked: soon if the client returned soon
// after the connection was parked, otherwise d. It must be called before the first connection.
func (s *Server) ParkAfter(d, soon time.Duration) {
	s.parkDelays.Normal.Store(int64(d))
	s.parkDelays.AfterReturn.Store(int64(soon))
}

// FailDescriptors makes the creation of the next event loops and pollers of parked WebSockets fail
// for lack of file descriptors. It must be called before the first connection.
func (s *Server) FailDescriptors(loops, pollers int) {
	s.loops.NewPoller = func() (*rawio.Poller, error) {
		if loops--; loops >= 0 {
			return nil, syscall.EMFILE
		}
		return rawio.NewPoller()
	}
	s.webSockets.idleSockets.NewPoller = func() (*rawio.Poller, error) {
		if pollers--; pollers >= 0 {
			return nil, syscall.EMFILE
		}
		return rawio.NewPoller()
	}
}

// WithoutSweeps ends the sweeps. On a slow machine, a sweep finds a request that has run for long: its
// event loop hands it to a goroutine, and a client that has closed its sending side counts as
// disconnected. It must be called before the first connection.
func (s *Server) WithoutSweeps() {
	s.conns.Init(connset.Hooks[*client]{Tick: s.clock.Tick, Sweep: func([]*client, bool) {}, MustSweepAll: s.sweeper.mustSweepAll})
}

// SpendRetries uses up the retry budget.
func (s *Server) SpendRetries() {
	for s.budget.Spend() {
	}
}

// Parked returns the number of parked connections.
func (s *Server) Parked() int { return s.conns.CountParked() }

// EndParked unparks the parked connections, calls f, and then ends them.
func (s *Server) EndParked(f func()) {
	all := s.conns.Unpark(connset.AnyParked)
	f()
	for _, p := range all {
		p.Wake(true)
	}
}

// BalanceLoops balances the event loops as if one of them was overloaded, or as if all were idle. It
// returns the number of connections of each loop, including those that are about to join.
func (s *Server) BalanceLoops(overloaded bool) []int {
	passed := time.Hour // so that the work of the loops is a negligible part of it
	if overloaded {
		passed = 0
	}
	s.loops.Balance(passed)
	return s.loops.ClientCounts()
}

// Connections returns the number of open connections, including parked ones.
func (s *Server) Connections() int { return s.conns.Count() }

// BeforeResponses makes the current idle connections call f before the first byte of a response is
// sent while its run continues.
func (s *Server) BeforeResponses(f func()) {
	s.conns.Each(func(c *client) {
		c.escaped = true // so that no other connection inherits the changed function
		leaves := c.relay.beforeFirstByte
		c.relay.beforeFirstByte = func() (time.Duration, error) {
			f()
			return leaves()
		}
	})
}

// Shared returns a function about the connection that is open now. After the connection has ended,
// the function reports whether its memory must not be reused because other goroutines may refer to it.
func (s *Server) Shared() func() (shared, over bool) {
	var open *client
	s.conns.Each(func(c *client) { open = c })
	return func() (shared, over bool) {
		if s.conns.Count() > 0 {
			return false, false
		}
		return open.escaped, true
	}
}

// WebSocketsReleased returns how often the queue has released a WebSocket.
func (s *Server) WebSocketsReleased() int { return int(s.webSockets.queue.Stats().Released) }

// StreamThreshold is the number of small requests in progress from which on the next one uses a
// multiplexed stream.
const StreamThreshold = streamThreshold

// UseStreamsForAll makes the node send all small requests on multiplexed streams, even if few
// requests are in progress.
func (s *Server) UseStreamsForAll() { s.streamThreshold = 0 }

// HoldLong makes the node buffer the beginning of a response for up to a minute, until the response is
// complete. On a slow machine, the end arrives late. It must be called before the first connection.
func (s *Server) HoldLong() { s.maxHoldTime = time.Minute }

// ErrPathDead is the error with which the sweep ends a mux session whose path is dead.
var ErrPathDead = errPathDead //nolint:gochecknoglobals // for tests

// WebSocketsQueued returns the number of resumable WebSockets that wait for an upstream connection.
func (s *Server) WebSocketsQueued() int { return s.webSockets.queue.Stats().Waiting }

// SetSchedulingDelay replaces the measured scheduling delay that limits the resumption of
// WebSockets. It must be called before the first connection.
func (s *Server) SetSchedulingDelay(f func() time.Duration) {
	s.webSockets.pacer.MeasureDelay = func(time.Time) time.Duration { return f() }
	s.webSockets.handovers.MeasureDelay = s.webSockets.pacer.MeasureDelay
}

// CutOnlyUpstreamConn returns a function that cancels the only upstream connection of the WebSocket
// id. It returns nil if the WebSocket has none.
func (s *Server) CutOnlyUpstreamConn(id string) func() {
	return s.webSockets.exclusive.CancelFunc([32]byte([]byte(id)))
}

// ServeInbound runs one request of a front other than HTTP/1. It returns true after a complete
// response. Otherwise the caller must abort the request, unless the response has been aborted.
func (s *Server) ServeInbound(ctx context.Context, in inbound.Request, addrs forwarded.Conn) (complete bool) {
	c := &client{requestState: requestState{server: s, settings: s.settings.Load()}}
	c.attach(in)
	c.life.ParentCtx = ctx //nolint:fatcontext // a new client
	c.clientAddr.Set(addrs, c.settings.TrustedProxies)
	c.keys.TrustedProxies = c.settings.TrustedProxies
	s.conns.Add(c)
	defer s.conns.Remove(c)
	defer c.life.End()
	if err := in.ReadRequest(&c.req); err != nil {
		return c.rejectInvalid(err)
	}
	c.handleRequest() //nolint:contextcheck // the client has the context
	c.body.ReleaseBuffer()
	return !c.exchange.connAborted
}

// rejectInvalid responds to an invalid request, and returns whether it did.
func (c *client) rejectInvalid(err error) (complete bool) {
	var malformed *h1.Error
	if !errors.As(err, &malformed) {
		return false
	}
	c.reply.rejectRequest(malformed)
	return true
}

// KeysInFlight returns the number of keys with requests that run or wait for each other.
func (s *Server) KeysInFlight() int { return s.keyGate.Len() }
