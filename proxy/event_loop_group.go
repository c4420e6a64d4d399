package proxy

import (
	"cmp"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"
)

// eventLoopGroup are those of a server: as many as the work needs, up to one for each processor. With
// one that is not busy a request wakes nobody else, and finds its connection to the app where
// the one before has left it.
type eventLoopGroup struct {
	mu        sync.Mutex
	s         *Server
	users     int // listeners whose clients they carry
	all       []*eventLoop
	active    int                        // of them, that carry clients; zero: one
	idleLooks int                        // looks since when one less would do
	none      bool                       // there are none on this system
	newLoop   func() (*eventLoop, error) // newEventLoop, but for tests; nil: that
}

// open has loops carry the clients of a listener, until close.
func (g *eventLoopGroup) open(s *Server) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.s = s
	g.users++
}

// close is called when all clients of a listener are gone; the last one ends the loops.
func (g *eventLoopGroup) close() {
	g.mu.Lock()
	var all []*eventLoop
	if g.users--; g.users == 0 {
		all, g.all, g.active = g.all, nil, 0
	}
	g.mu.Unlock()
	for _, l := range all {
		_ = l.poller.Close()
		<-l.ended
	}
}

// join has the loop with the fewest clients carry c, which nobody else has. Without one its
// goroutine does, and tries again after some requests, unless there are none on this system.
func (g *eventLoopGroup) join(c *client) {
	c.watcher.workers.wg.Add(1)
	if l := g.pick(); l != nil {
		l.join(c)
		return
	}
	if c.eligibility.recordMiss(); g.never() {
		c.eventLoops = nil
	}
	c.watcher.resume(c)
}

// never reports whether there are no loops on this system.
func (g *eventLoopGroup) never() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.none
}

// pick returns a loop for one client more; nil: there is none.
func (g *eventLoopGroup) pick() *eventLoop {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.all) == 0 && !g.grow() {
		return nil
	}
	return least(g.all[:max(g.active, 1)])
}

// grow makes a loop more. With mu held.
func (g *eventLoopGroup) grow() bool {
	if g.none {
		return false
	}
	fresh := newEventLoop
	if g.newLoop != nil {
		fresh = g.newLoop
	}
	l, err := fresh()
	if err != nil {
		g.none = errors.Is(err, errors.ErrUnsupported) // else there is none at this moment
		g.s.o.Log.Debug().Err(err).Msg("event loop not available")
		return false
	}
	g.all = append(g.all, l)
	return true
}

// least returns the one with the fewest clients.
func least(all []*eventLoop) *eventLoop {
	return slices.MinFunc(all, func(a, b *eventLoop) int { return cmp.Compare(a.clientCount.Load(), b.clientCount.Load()) })
}

const (
	// loopBusy is from which share of the time on, in percent, a loop is too busy to be the
	// only one, or one of so few.
	loopBusy = 75
	// loopSpare is up to which share one less would have done, and loopCalm for how many
	// looks it must have been so before it is given up: each client of it has to move.
	loopSpare = 50
	loopCalm  = 5
)

// count returns how many clients they carry.
func (g *eventLoopGroup) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := int32(0)
	for _, l := range g.all {
		n += l.clientCount.Load()
	}
	return int(n)
}

// balance has as many loops carry clients as are busy, and about as many clients each. One
// goroutine calls it, every second or so; passed is the time since the last call.
func (g *eventLoopGroup) balance(passed time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.active = max(g.active, 1)
	total, most, all := int32(0), time.Duration(0), time.Duration(0)
	for _, l := range g.all {
		busy := time.Duration(l.busy.Swap(0))
		total, most, all = total+l.clientCount.Load(), max(most, busy), all+busy
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

// spread has clients move from loops that have more than their share, or none. With mu held.
func (g *eventLoopGroup) spread(total int) {
	for i, l := range g.all {
		fair := 0
		if i < g.active {
			fair = total/g.active + total/16 + 1
		}
		if to, many := least(g.all[:g.active]), int(l.clientCount.Load()); to != l && many > fair {
			l.send(message{give: many - fair, to: to})
		}
	}
}
