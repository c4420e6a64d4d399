package proxy

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"shardway/queue"
)

// gate is before a pool. It is shut while the place takes nothing: an app that is
// down, a node that is not there or whose app is down. Then one request at a time
// asks, after 10 ms, doubling to 200 ms, and all others wait in the Room until it
// was served, or until a new table sends them elsewhere: thousands that asked each
// for itself would keep a machine busy with nothing.
//
//	open ──close──► shut ──timer──► a turn ──pass──► shut ──connected, served──► open
type gate struct {
	room rooms
	shut atomic.Bool // set with mu held

	mu      sync.Mutex
	why     error
	waiting int  // for it to open, or for their turn
	ready   bool // a turn nobody has taken
	due     bool // and it came by the timer: it asks the place whatever else there is
	asking  bool // one has been taken, and nothing come of it yet
	pause   time.Duration
	timer   *time.Timer
}

var _ door = (*gate)(nil)

// door is what requests wait for until it lets them through, and counts them.
type door interface {
	queue.Condition
	count(n int)
}

// Ready reports whether it is worth a request's while to come again.
func (g *gate) Ready() bool {
	if !g.shut.Load() {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ready || !g.shut.Load()
}

// pass lets a request through: any while the gate is open, else the one whose
// turn it is, and who comes while nobody else waits or asks. With dials, it is time
// for a new connection, even if another one serves the request: those come back for
// as long as they are used, and tell nothing of new ones.
func (g *gate) pass() (ok, dials bool) {
	if !g.shut.Load() {
		return true, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut.Load() {
		return true, false
	}
	if !g.ready && (g.waiting > 0 || g.asking) {
		return false, false
	}
	if g.due {
		g.timer.Reset(lastPause) // should nothing come of this one
	}
	dials = g.due && !errors.Is(g.why, errNoApp)
	g.ready, g.due, g.asking = false, false, true
	return true, dials
}

// close shuts the gate, or keeps it shut for longer, and remembers why.
func (g *gate) close(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.why = why
	g.ready, g.due, g.asking = false, false, false
	if !g.shut.Swap(true) {
		g.pause = 0
	}
	g.pause = min(max(2*g.pause, firstPause), lastPause)
	if g.timer == nil {
		g.timer = time.AfterFunc(g.pause, g.turnComes)
	} else {
		g.timer.Reset(g.pause)
	}
}

// turnComes lets one request ask: the one that has waited longest, or else
// whoever comes next. As long as anybody waits there will be another turn.
func (g *gate) turnComes() {
	g.mu.Lock()
	if !g.shut.Load() {
		g.mu.Unlock()
		return
	}
	g.ready, g.due, g.asking = true, true, false
	g.mu.Unlock()
	if !g.room.RouseOne(g) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut.Load() {
		g.timer.Reset(lastPause)
	}
}

// connected opens the gate, unless the place had taken connections all the while:
// a node whose app takes none.
func (g *gate) connected() {
	if g.shut.Load() && !errors.Is(g.reason(), errNoApp) {
		g.open()
	}
}

// spare gives a turn to what can use a connection that was given back although no
// new one is to be had. The timer goes on.
func (g *gate) spare() {
	if !g.shut.Load() {
		return
	}
	g.mu.Lock()
	turns := g.shut.Load() && !errors.Is(g.why, errNoApp)
	if turns {
		g.ready, g.asking = true, false
	}
	g.mu.Unlock()
	if turns {
		g.room.RouseOne(g)
	}
}

// served opens the gate of a node whose app took no connections: it takes them
// again. The owner says so at once, for the answer may be long in coming.
func (g *gate) served() {
	if g.shut.Load() && errors.Is(g.reason(), errNoApp) {
		g.open()
	}
}

// open lets everybody through. Who waits goes on by the Room's ramp.
func (g *gate) open() {
	g.mu.Lock()
	was := g.shut.Swap(false)
	g.ready, g.due, g.asking = false, false, false
	if g.timer != nil {
		g.timer.Stop()
	}
	g.mu.Unlock()
	if was {
		g.room.Rouse(g)
	}
}

// count counts who waits, by 1 or -1.
func (g *gate) count(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting += n
}

// reason is why the gate was shut last.
func (g *gate) reason() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.why
}
