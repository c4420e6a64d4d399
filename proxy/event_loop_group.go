package proxy

import (
	"cmp"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"
)

// eventLoopGroup contains the event loops of a server. Their number depends on the load, up to one
// per processor. While one event loop suffices, a request wakes no other goroutine, and the
// upstream connection is registered with the same loop.
type eventLoopGroup struct {
	mu          sync.Mutex
	server      *Server
	listeners   int // listeners whose clients use the loops
	loops       []*eventLoop
	active      int                        // number of loops that serve clients; zero means that one does
	idleChecks  int                        // number of consecutive calls of balance after which one loop less would suffice
	unsupported bool                       // the system supports no event loops
	newLoop     func() (*eventLoop, error) // replaces newEventLoop in tests; nil means newEventLoop
}

// open makes the loops available to the clients of a listener, until close.
func (g *eventLoopGroup) open(s *Server) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.server = s
	g.listeners++
}

// close is called when all clients of a listener have ended. The last call ends the loops.
func (g *eventLoopGroup) close() {
	g.mu.Lock()
	var loops []*eventLoop
	if g.listeners--; g.listeners == 0 {
		loops, g.loops, g.active = g.loops, nil, 0
	}
	g.mu.Unlock()
	for _, loop := range loops {
		_ = loop.poller.Close()
		<-loop.ended
	}
}

// join gives c to the loop with the fewest clients. The caller must not use c after that. If no
// loop can be created, the goroutine of c continues. It tries again after some requests, unless the
// system supports no event loops.
func (g *eventLoopGroup) join(c *client) {
	c.watcher.workers.Group().Add(1)
	if loop := g.pick(); loop != nil {
		loop.join(c)
		return
	}
	if c.eligibility.recordMiss(); g.isUnsupported() {
		c.eventLoops = nil
	}
	c.watcher.resume(c)
}

// isUnsupported reports whether the system supports no event loops.
func (g *eventLoopGroup) isUnsupported() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.unsupported
}

// pick returns a loop for another client, or nil if there is none.
func (g *eventLoopGroup) pick() *eventLoop {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.loops) == 0 && !g.addLoop() {
		return nil
	}
	return leastLoaded(g.loops[:max(g.active, 1)])
}

// addLoop adds a loop. The caller must hold mu.
func (g *eventLoopGroup) addLoop() bool {
	if g.unsupported {
		return false
	}
	create := newEventLoop
	if g.newLoop != nil {
		create = g.newLoop
	}
	loop, err := create()
	if err != nil {
		g.unsupported = errors.Is(err, errors.ErrUnsupported) // other errors are temporary
		g.server.options.Log.Debug().Err(err).Msg("event loop not available")
		return false
	}
	g.loops = append(g.loops, loop)
	return true
}

// leastLoaded returns the loop with the fewest clients.
func leastLoaded(loops []*eventLoop) *eventLoop {
	return slices.MinFunc(loops, func(a, b *eventLoop) int { return cmp.Compare(a.clientCount.Load(), b.clientCount.Load()) })
}

const (
	// overloadPercent is the share of time in percent above which a loop is treated as overloaded,
	// so that another loop is added.
	overloadPercent = 75
	// sparePercent is the share of time in percent below which one loop less would suffice. shrinkAfterChecks
	// is the number of consecutive checks before that loop is stopped. It is more than one because
	// each client of the loop must move.
	sparePercent      = 50
	shrinkAfterChecks = 5
)

// count returns the number of clients in all loops.
func (g *eventLoopGroup) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := int32(0)
	for _, loop := range g.loops {
		n += loop.clientCount.Load()
	}
	return int(n)
}

// balance adjusts the number of active loops to the load, and distributes the clients evenly. One
// goroutine calls it about once a second. passed is the time since the previous call.
func (g *eventLoopGroup) balance(passed time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.active = max(g.active, 1)
	clientCount, maxBusy, totalBusy := int32(0), time.Duration(0), time.Duration(0)
	for _, loop := range g.loops {
		busy := time.Duration(loop.busyNanos.Swap(0))
		clientCount, maxBusy, totalBusy = clientCount+loop.clientCount.Load(), max(maxBusy, busy), totalBusy+busy
	}
	g.idleChecks++
	switch {
	case clientCount == 0:
		return
	case maxBusy*100 >= passed*overloadPercent && g.active < runtime.GOMAXPROCS(0):
		if g.active < len(g.loops) || g.addLoop() {
			g.active, g.idleChecks = g.active+1, 0
		}
	case totalBusy*100 >= passed*sparePercent*time.Duration(g.active-1) && g.active <= runtime.GOMAXPROCS(0):
		g.idleChecks = 0
	case g.idleChecks >= shrinkAfterChecks && g.active > 1:
		g.active, g.idleChecks = g.active-1, 0
	}
	g.rebalance(int(clientCount))
}

// rebalance moves clients away from loops that have more than their share, and from inactive loops.
// The caller must hold mu.
func (g *eventLoopGroup) rebalance(clientCount int) {
	for i, loop := range g.loops {
		fairShare := 0
		if i < g.active {
			fairShare = clientCount/g.active + clientCount/16 + 1
		}
		if target, clientCount := leastLoaded(g.loops[:g.active]), int(loop.clientCount.Load()); target != loop && clientCount > fairShare {
			loop.send(message{transferCount: clientCount - fairShare, transferTarget: target})
		}
	}
}
