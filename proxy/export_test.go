package proxy

import (
	"sync/atomic"
	"syscall"
	"time"

	"shardway/internal/rawio"
)

// CountBuffers counts in n the bytes of the buffers that connections have. Before the first one.
func (s *Server) CountBuffers(n *atomic.Int64) { s.buffers.Lent = n }

// CountSpliced counts in n the bytes that the kernel moves from connection to connection.
// Before the first one.
func (s *Server) CountSpliced(n *atomic.Int64) { s.buffers.Spliced = n }

// ParkAfter has idle connections parked after d, and after soon where the client came back
// soon. Before the first one.
func (s *Server) ParkAfter(d, soon time.Duration) {
	s.parkAfter.Store(int64(d))
	s.parkSoon.Store(int64(soon))
}

// WantsDescriptors has the next loops, and the next watches of legs, not come about for want of
// descriptors, so many of either. Before the first one.
func (s *Server) WantsDescriptors(loops, roosts int) {
	s.loops.newLoop = func() (*eventLoop, error) {
		if loops--; loops >= 0 {
			return nil, syscall.EMFILE
		}
		return newEventLoop()
	}
	s.idleSockets.NewPoller = func() (*rawio.Poller, error) {
		if roosts--; roosts >= 0 {
			return nil, syscall.EMFILE
		}
		return rawio.NewPoller()
	}
}

// WithoutSweeps ends the sweeps. On a slow machine, a sweep finds a request that has run for long: its
// event loop hands it to a goroutine, and a client that has closed its sending side counts as
// disconnected. It must be called before the first connection.
func (s *Server) WithoutSweeps() {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	s.conns.sweep = func([]*client, bool) {}
}

// SpendRetries leaves nothing of what was saved for requests that go again.
func (s *Server) SpendRetries() {
	for s.budget.Spend() {
	}
}

// Parked counts the connections that are parked.
func (s *Server) Parked() int { return s.conns.countParked() }

// EndParked takes the parked connections, calls f, and then has them end.
func (s *Server) EndParked(f func()) {
	s.conns.mu.Lock()
	var all []*parkedConn
	for p := range s.conns.parked.all {
		all = append(all, p)
		s.conns.unpark(p)
	}
	s.conns.mu.Unlock()
	f()
	for _, p := range all {
		p.wake(true)
	}
}

// BalanceLoops balances the loops as if the first had been busy for so long of a second, and
// returns how many connections each carries, or is about to.
func (s *Server) BalanceLoops(busy time.Duration) (many []int) {
	g := &s.loops
	g.mu.Lock()
	g.all[0].busy.Store(int64(busy))
	g.mu.Unlock()
	g.balance(time.Second)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.all {
		many = append(many, int(l.clientCount.Load()))
	}
	return many
}

// Connections counts the open connections, with those that are parked.
func (s *Server) Connections() int { return s.conns.count() }

// BeforeAnswers has f called before the first byte of an answer leaves while its run
// goes on, on the connections that are open and idle now.
func (s *Server) BeforeAnswers(f func()) {
	s.conns.each(func(c *client) {
		c.escaped = true // the next one has another
		leaves := c.relay.leaves
		c.relay.leaves = func() (time.Duration, error) {
			f()
			return leaves()
		}
	})
}

// Shared returns what tells, once there is no connection any more, whether the memory of the
// one that is open now is kept from the next, as others may know of it.
func (s *Server) Shared() func() (shared, over bool) {
	var one *client
	s.conns.each(func(c *client) { one = c })
	return func() (shared, over bool) {
		if s.conns.count() > 0 {
			return false, false
		}
		return one.escaped, true
	}
}

// SocketsAwakened counts how often one of those went on.
func (s *Server) SocketsAwakened() int { return int(s.webSockets.queue.Stats().Released) }

// LanesFrom is how many small requests are under way when the next goes by a lane.
const LanesFrom = streamThreshold

// ByLanes has all that is small go by lanes from now on, however little is under way.
func (s *Server) ByLanes() { s.streamThreshold = 0 }

// HoldLong has the node hold the beginning of a response for a minute, until its end has arrived. On a
// slow machine the end arrives late. It must be called before the first connection.
func (s *Server) HoldLong() { s.maxHoldTime = time.Minute }

// ErrDeaf is what the sweep breaks a trunk with whose path is dead.
var ErrDeaf = errPathDead //nolint:gochecknoglobals // for tests

// SocketsWaiting counts the kept sockets that have to wait for another leg.
func (s *Server) SocketsWaiting() int { return s.webSockets.queue.Stats().Waiting }

// BeLate has the node as late as f says, where sockets move. Before the first one.
func (s *Server) BeLate(f func() time.Duration) {
	s.webSockets.pacer.MeasureDelay = func(time.Time) time.Duration { return f() }
	s.webSockets.handovers.MeasureDelay = s.webSockets.pacer.MeasureDelay
}

// CutLoneLeg returns what cuts the one request, or leg, of a socket that the app has; nil:
// it has none.
func (s *Server) CutLoneLeg(id string) func() {
	return s.webSockets.exclusive.CancelFunc([32]byte([]byte(id)))
}
