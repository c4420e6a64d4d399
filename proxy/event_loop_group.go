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
	mu        sync.Mutex
	server    *Server
	users     int // listeners whose clients use the loops
	all       []*eventLoop
	active    int                        // number of loops that serve clients; zero means that one does
	idleLooks int                        // number of consecutive calls of balance after which one loop less would suffice
	none      bool                       // the system supports no event loops
	newLoop   func() (*eventLoop, error) // replaces newEventLoop in tests; nil means newEventLoop
}

// open makes the loops available to the clients of a listener, until close.
func (g *eventLoopGroup) open(s *Server) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.server = s
	g.users++
}

// close is called when all clients of a listener have ended. The last call ends the loops.
func (g *eventLoopGroup) close() {
	g.mu.Lock()
	var all []*eventLoop
	if g.users--; g.users == 0 {
		all, g.all, g.active = g.all, nil, 0
	}
	g.mu.Unlock()
	for _, loop := range all {
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
	if c.eligibility.recordMiss(); g.never() {
		c.eventLoops = nil
	}
	c.watcher.resume(c)
}

// never reports whether the system supports no event loops.
func (g *eventLoopGroup) never() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.none
}

// pick returns a loop for another client, or nil if there is none.
func (g *eventLoopGroup) pick() *eventLoop {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.all) == 0 && !g.grow() {
		return nil
	}
	return least(g.all[:max(g.active, 1)])
}

// grow adds a loop. The caller must hold mu.
func (g *eventLoopGroup) grow() bool {
	if g.none {
		return false
	}
	fresh := newEventLoop
	if g.newLoop != nil {
		fresh = g.newLoop
	}
	loop, err := fresh()
	if err != nil {
		g.none = errors.Is(err, errors.ErrUnsupported) // other errors are temporary
		g.server.options.Log.Debug().Err(err).Msg("event loop not available")
		return false
	}
	g.all = append(g.all, loop)
	return true
}

// least returns the loop with the fewest clients.
func least(all []*eventLoop) *eventLoop {
	return slices.MinFunc(all, func(a, b *eventLoop) int { return cmp.Compare(a.clientCount.Load(), b.clientCount.Load()) })
}

const (
	// loopBusy is the share of time in percent above which a loop counts as overloaded, so that
	// another loop is added.
	loopBusy = 75
	// loopSpare is the share of time in percent below which one loop less would suffice. loopCalm
	// is the number of consecutive checks before that loop is stopped. It is more than one because
	// each client of the loop must move.
	loopSpare = 50
	loopCalm  = 5
)

// count returns the number of clients in all loops.
func (g *eventLoopGroup) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := int32(0)
	for _, loop := range g.all {
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
	total, most, all := int32(0), time.Duration(0), time.Duration(0)
	for _, loop := range g.all {
		busy := time.Duration(loop.busy.Swap(0))
		total, most, all = total+loop.clientCount.Load(), max(most, busy), all+busy
	}
	g.idleLooks++
	switch {
	case total == 0:
		return
	case most*100 >= passed*loopBusy && g.active < runtime.GOMAXPROCS(0):
		if g.active < len(g.all) || g.grow() {
			g.active, g.idleLooks = g.active+1, 0
		}
	case all*100 >= passed*loopSpare*time.Duration(g.active-1) && g.active <= runtime.GOMAXPROCS(0):
		g.idleLooks = 0
	case g.idleLooks >= loopCalm && g.active > 1:
		g.active, g.idleLooks = g.active-1, 0
	}
	g.spread(int(total))
}

// spread moves clients away from loops that have more than their share, and from inactive loops.
// The caller must hold mu.
func (g *eventLoopGroup) spread(total int) {
	for i, loop := range g.all {
		fair := 0
		if i < g.active {
			fair = total/g.active + total/16 + 1
		}
		if target, many := least(g.all[:g.active]), int(loop.clientCount.Load()); target != loop && many > fair {
			loop.send(message{transferCount: many - fair, transferTarget: target})
		}
	}
}
