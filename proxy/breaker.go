package proxy

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"shardway/queue"
)

// breaker is the circuit breaker of a pool. It trips when the destination accepts no requests,
// because the app is down, the node is unreachable, or the app of the node is down.
//
// While the breaker is tripped, one request at a time may probe the destination, after a pause of
// 10 ms that doubles up to 200 ms. All other requests wait in the queue, until a probe has
// succeeded or a new routing table routes them elsewhere. Without the breaker, thousands of
// requests would keep the machine busy with failing dials.
//
//	closed ──trip──► tripped ──timer──► probeReady ──allow──► probing ──onConnected, onAccepted──► closed
//	                    ▲                                        │
//	                    └──────────────────trip──────────────────┘
type breaker struct {
	rooms   rooms
	tripped atomic.Bool // written with mu held

	// mu protects the following fields.
	mu           sync.Mutex
	cause        error
	waiting      int  // requests that wait for a reset or a probe
	probeReady   bool // the next request may probe
	probeByTimer bool // the timer has set probeReady, so the probe must dial even if an idle connection is available
	probing      bool // a probe is in progress
	backoff      time.Duration
	timer        *time.Timer
}

var _ waitable = (*breaker)(nil)

// waitable is a condition that requests wait for. It counts its waiting requests.
type waitable interface {
	queue.Condition
	count(n int)
}

// Ready reports whether a waiting request should retry now. It implements queue.Condition.
func (g *breaker) Ready() bool {
	if !g.tripped.Load() {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.probeReady || !g.tripped.Load()
}

// allow reports whether a request may use the destination. While the breaker is tripped, only a
// probe may. A request that arrives while no other request waits or probes also becomes the probe.
// dials means that the pool must dial a new connection even if the request uses an idle one: idle
// connections work even while the destination accepts no new ones, so they prove nothing.
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
		g.timer.Reset(lastPause) // a probe may end without a result; then the timer permits another one
	}
	dials = g.probeByTimer && !errors.Is(g.cause, errNoApp)
	g.probeReady, g.probeByTimer, g.probing = false, false, true
	return true, dials
}

// trip trips the breaker, or lengthens the pause if it is tripped, and records the cause.
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

// allowProbe permits one probe: by the request that has waited longest, or by the next request that
// arrives. While requests wait, it restarts the timer.
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

// onConnected resets the breaker after a successful dial, unless the breaker is tripped because the
// app of a node is down. In that case a connection to the node proves nothing.
func (g *breaker) onConnected() {
	if g.tripped.Load() && !errors.Is(g.reason(), errNoApp) {
		g.reset()
	}
}

// probeWithReused lets one request use a returned connection, although new connections fail. It
// does not affect the timer.
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

// onAccepted resets the breaker of a node whose app was down, because the app has accepted a
// request. The owner reports the acceptance before the response, which may take long.
func (g *breaker) onAccepted() {
	if g.tripped.Load() && errors.Is(g.reason(), errNoApp) {
		g.reset()
	}
}

// reset lets all requests through. The queue releases the waiting requests gradually.
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

// count adds n, which is 1 or -1, to the number of waiting requests.
func (g *breaker) count(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting += n
}

// reason returns the cause of the last trip.
func (g *breaker) reason() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cause
}
