package proxy

import (
	"cmp"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"
)

// loops are those of a server: as many as the work needs, up to one for each processor. With
// one that is not busy a request wakes nobody else, and finds its connection to the app where
// the one before has left it.
type loops struct {
	mu    sync.Mutex
	s     *Server
	users int // listeners whose clients they carry
	all   []*loop
	now   int                   // of them, that carry clients; zero: one
	calm  int                   // looks since when one less would do
	none  bool                  // there are none on this system
	fresh func() (*loop, error) // newLoop, but for tests; nil: that
}

// open has loops carry the clients of a listener, until close.
func (g *loops) open(s *Server) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.s = s
	g.users++
}

// close is called when all clients of a listener are gone; the last one ends the loops.
func (g *loops) close() {
	g.mu.Lock()
	var all []*loop
	if g.users--; g.users == 0 {
		all, g.all, g.now = g.all, nil, 0
	}
	g.mu.Unlock()
	for _, l := range all {
		_ = l.lookout.Close()
		<-l.ended
	}
}

// join has the loop with the fewest clients carry c, which nobody else has. Without one its
// goroutine does, and tries again after some requests, unless there are none on this system.
func (g *loops) join(c *client) {
	c.lot.hands.wg.Add(1)
	if l := g.pick(); l != nil {
		l.join(c)
		return
	}
	if c.habit.unfit(); g.never() {
		c.loops = nil
	}
	c.lot.carryOn(c)
}

// never reports whether there are no loops on this system.
func (g *loops) never() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.none
}

// pick returns a loop for one client more; nil: there is none.
func (g *loops) pick() *loop {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.all) == 0 && !g.grow() {
		return nil
	}
	return least(g.all[:max(g.now, 1)])
}

// grow makes a loop more. With mu held.
func (g *loops) grow() bool {
	if g.none {
		return false
	}
	fresh := newLoop
	if g.fresh != nil {
		fresh = g.fresh
	}
	l, err := fresh()
	if err != nil {
		g.none = errors.Is(err, errors.ErrUnsupported) // else there is none at this moment
		g.s.o.Log.Debug().Err(err).Msg("connections not looped")
		return false
	}
	g.all = append(g.all, l)
	return true
}

// least returns the one with the fewest clients.
func least(all []*loop) *loop {
	return slices.MinFunc(all, func(a, b *loop) int { return cmp.Compare(a.many.Load(), b.many.Load()) })
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
func (g *loops) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := int32(0)
	for _, l := range g.all {
		n += l.many.Load()
	}
	return int(n)
}

// balance has as many loops carry clients as are busy, and about as many clients each. One
// goroutine calls it, every second or so; passed is the time since the last call.
func (g *loops) balance(passed time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now = max(g.now, 1)
	total, most, all := int32(0), time.Duration(0), time.Duration(0)
	for _, l := range g.all {
		busy := time.Duration(l.busy.Swap(0))
		total, most, all = total+l.many.Load(), max(most, busy), all+busy
	}
	g.calm++
	switch {
	case total == 0:
		return
	case most*100 >= passed*loopBusy && g.now < runtime.GOMAXPROCS(0):
		if g.now < len(g.all) || g.grow() {
			g.now, g.calm = g.now+1, 0
		}
	case all*100 >= passed*loopSpare*time.Duration(g.now-1) && g.now <= runtime.GOMAXPROCS(0):
		g.calm = 0
	case g.calm >= loopCalm && g.now > 1:
		g.now, g.calm = g.now-1, 0
	}
	g.spread(int(total))
}

// spread has clients move from loops that have more than their share, or none. With mu held.
func (g *loops) spread(total int) {
	for i, l := range g.all {
		fair := 0
		if i < g.now {
			fair = total/g.now + total/16 + 1
		}
		if to, many := least(g.all[:g.now]), int(l.many.Load()); to != l && many > fair {
			l.post(letter{give: many - fair, to: to})
		}
	}
}
