package proxy

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"shardway/queue"
)

// breaker is before a pool. It is shut while the place takes nothing: an app that is
// down, a node that is not there or whose app is down. Then one request at a time
// asks, after 10 ms, doubling to 200 ms, and all others wait in the Room until it
// was served, or until a new table sends them elsewhere: thousands that asked each
// for itself would keep a machine busy with nothing.
//
//	open ──close──► shut ──timer──► a turn ──pass──► shut ──connected, served──► open
type breaker struct {
	rooms   rooms
	tripped atomic.Bool // set with mu held

	mu           sync.Mutex
	cause        error
	waiting      int  // for it to open, or for their turn
	probeReady   bool // a turn nobody has taken
	probeByTimer bool // and it came by the timer: it asks the place whatever else there is
	probing      bool // one has been taken, and nothing come of it yet
	backoff      time.Duration
	timer        *time.Timer
}

var _ waitable = (*breaker)(nil)

// waitable is what requests wait for until it lets them through, and counts them.
type waitable interface {
	queue.Condition
	count(n int)
}

// Ready reports whether it is worth a request's while to come again.
func (g *breaker) Ready() bool {
	if !g.tripped.Load() {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.probeReady || !g.tripped.Load()
}

// allow lets a request through: any while the gate is open, else the one whose
// turn it is, and who comes while nobody else waits or asks. With dials, it is time
// for a new connection, even if another one serves the request: those come back for
// as long as they are used, and tell nothing of new ones.
func (g *breaker) allow() (ok, dials bool) {
	if !g.tripped.Load() {
		return true, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.tripped.Load() {
		return true, false
	}
	if !g.probeReady && (g.waiting > 0 || g.probing) {
		return false, false
	}
	if g.probeByTimer {
		g.timer.Reset(lastPause) // should nothing come of this one
	}
	dials = g.probeByTimer && !errors.Is(g.cause, errNoApp)
	g.probeReady, g.probeByTimer, g.probing = false, false, true
	return true, dials
}

// trip shuts the gate, or keeps it shut for longer, and remembers why.
func (g *breaker) trip(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cause = why
	g.probeReady, g.probeByTimer, g.probing = false, false, false
	if !g.tripped.Swap(true) {
		g.backoff = 0
	}
	g.backoff = min(max(2*g.backoff, firstPause), lastPause)
	if g.timer == nil {
		g.timer = time.AfterFunc(g.backoff, g.allowProbe)
	} else {
		g.timer.Reset(g.backoff)
	}
}

// allowProbe lets one request ask: the one that has waited longest, or else
// whoever comes next. As long as anybody waits there will be another turn.
func (g *breaker) allowProbe() {
	g.mu.Lock()
	if !g.tripped.Load() {
		g.mu.Unlock()
		return
	}
	g.probeReady, g.probeByTimer, g.probing = true, true, false
	g.mu.Unlock()
	if !g.rooms.RouseOne(g) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tripped.Load() {
		g.timer.Reset(lastPause)
	}
}

// onConnected opens the gate, unless the place had taken connections all the while:
// a node whose app takes none.
func (g *breaker) onConnected() {
	if g.tripped.Load() && !errors.Is(g.reason(), errNoApp) {
		g.reset()
	}
}

// probeWithReused gives a turn to what can use a connection that was given back although no
// new one is to be had. The timer goes on.
func (g *breaker) probeWithReused() {
	if !g.tripped.Load() {
		return
	}
	g.mu.Lock()
	turns := g.tripped.Load() && !errors.Is(g.cause, errNoApp)
	if turns {
		g.probeReady, g.probing = true, false
	}
	g.mu.Unlock()
	if turns {
		g.rooms.RouseOne(g)
	}
}

// onAccepted opens the gate of a node whose app took no connections: it takes them
// again. The owner says so at once, for the answer may be long in coming.
func (g *breaker) onAccepted() {
	if g.tripped.Load() && errors.Is(g.reason(), errNoApp) {
		g.reset()
	}
}

// reset lets everybody through. Who waits goes on by the Room's ramp.
func (g *breaker) reset() {
	g.mu.Lock()
	was := g.tripped.Swap(false)
	g.probeReady, g.probeByTimer, g.probing = false, false, false
	if g.timer != nil {
		g.timer.Stop()
	}
	g.mu.Unlock()
	if was {
		g.rooms.Rouse(g)
	}
}

// count counts who waits, by 1 or -1.
func (g *breaker) count(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting += n
}

// reason is why the gate was shut last.
func (g *breaker) reason() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cause
}
