package backoff

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// A pause is the time after a failure in which no attempt is made. The first pause lasts MinPause. Each
// further failure doubles it, up to MaxPause.
const (
	MinPause = 10 * time.Millisecond
	MaxPause = 200 * time.Millisecond
)

// ErrNoApp is the cause of a tripped breaker if a node is reachable but its app accepts no
// connections.
var ErrNoApp = errors.New("proxy: the app behind the owner accepts no connections")

// Breaker is the circuit breaker of a destination: the app, or another node. It trips when the
// destination accepts no requests, because the app is down, the node is unreachable, or the node's
// app is down.
//
// A closed breaker lets all requests through. An open breaker lets none through until the pause has
// passed. It is then half-open: one request at a time may probe the destination. All other requests
// wait in the queue until a probe succeeds or a new routing table routes them elsewhere. Without
// the breaker, thousands of requests would keep the machine busy with failing dials. A breaker that
// is not closed is called tripped.
//
//	closed ──Open──► open ──timer──► half-open ──Allow──► half-open, probing ──OnConnected, OnAccepted──► closed
//	                  ▲                                             │
//	                  └─────────────────────Open────────────────────┘
//
// A half-open breaker requires a new connection for the probe (breakerHalfOpenDial), unless a returned
// connection shows that connections in use still work (breakerHalfOpenAny).
type Breaker struct {
	queues Queues
	state  atomic.Uint32 // a breakerState; written with mu held

	// mu protects the following fields.
	mu              sync.Mutex
	cause           error         // cause of the last trip
	waitingRequests int           // requests that wait for a reset or a probe
	pause           time.Duration // duration of the last pause; zero means none since the breaker was closed
	timer           *time.Timer   // calls allowProbe; nil until the first trip
}

// breakerState is the state of a Breaker. In every state except breakerClosed, the breaker is tripped.
type breakerState uint32

const (
	// breakerClosed means that all requests may use the destination.
	breakerClosed breakerState = iota
	// breakerOpen means that no request may use the destination until the pause has passed.
	breakerOpen
	// breakerHalfOpenDial means that the next request may probe the destination. The pool must dial
	// for it, even if an idle connection is available.
	breakerHalfOpenDial
	// breakerHalfOpenAny means that the next request may probe the destination with any connection.
	breakerHalfOpenAny
	// breakerHalfOpenProbing means that a probe is in progress.
	breakerHalfOpenProbing
)

// allowsProbe reports whether the next request may probe the destination.
func (s breakerState) allowsProbe() bool {
	return s == breakerHalfOpenDial || s == breakerHalfOpenAny
}

// loadState returns the current state.
func (b *Breaker) loadState() breakerState { return breakerState(b.state.Load()) }

// setStateLocked sets the state, and returns the previous one. The caller must hold b.mu.
func (b *Breaker) setStateLocked(next breakerState) (previous breakerState) {
	return breakerState(b.state.Swap(uint32(next)))
}

var _ Condition = (*Breaker)(nil)

// Ready reports whether a waiting request should retry now. It implements queue.Condition.
func (b *Breaker) Ready() bool {
	state := b.loadState()
	return state == breakerClosed || state.allowsProbe()
}

// Allow reports whether a request may use the destination. While the breaker is tripped, only a
// probe may. A request that arrives while no other request waits or probes also becomes the probe.
// mustDial is set if the pool must dial even if the request uses an idle connection, because idle
// connections may work while the destination accepts no new ones.
func (b *Breaker) Allow() (ok, mustDial bool) {
	if !b.IsTripped() {
		return true, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.loadState()
	if state == breakerClosed {
		return true, false
	}
	othersComeFirst := b.waitingRequests > 0 || state == breakerHalfOpenProbing
	if othersComeFirst && !state.allowsProbe() {
		return false, false
	}
	if state == breakerHalfOpenDial {
		b.timer.Reset(MaxPause) // allow another probe if this one never reports a result
		mustDial = !errors.Is(b.cause, ErrNoApp)
	}
	b.setStateLocked(breakerHalfOpenProbing)
	return true, mustDial
}

// Open trips the breaker and records the cause. No dial is permitted during the pause that follows.
// If the breaker is already tripped, the pause is twice as long as the previous one, and a probe in
// progress is ignored.
func (b *Breaker) Open(cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cause = cause
	if b.setStateLocked(breakerOpen) == breakerClosed {
		b.pause = 0
	}
	b.pause = nextPause(b.pause)
	if b.timer == nil {
		b.timer = time.AfterFunc(b.pause, b.allowProbe)
	} else {
		b.timer.Reset(b.pause)
	}
}

// nextPause returns the pause that follows the given one, or the first pause if it is zero.
func nextPause(pause time.Duration) time.Duration {
	return min(max(2*pause, MinPause), MaxPause)
}

// allowProbe permits one probe, by the request that has waited longest or, if none waits, by the
// next request that arrives. If requests wait, it also restarts the timer, so that another one probes if the first probe
// ends without a result.
func (b *Breaker) allowProbe() {
	b.mu.Lock()
	if !b.IsTripped() {
		b.mu.Unlock()
		return
	}
	b.setStateLocked(breakerHalfOpenDial)
	b.mu.Unlock()
	if !b.queues.WakeOne(b) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.IsTripped() {
		b.timer.Reset(MaxPause)
	}
}

// OnConnected resets the breaker after a successful dial, unless the breaker is tripped because the
// app of a node is down. In that case a connection to the node proves nothing.
func (b *Breaker) OnConnected() {
	if b.IsTripped() && !errors.Is(b.Cause(), ErrNoApp) {
		b.Reset()
	}
}

// ProbeWithReused lets one request use a connection that was returned to the pool, although new
// connections fail. It does not affect the timer.
func (b *Breaker) ProbeWithReused() {
	if !b.IsTripped() {
		return
	}
	b.mu.Lock()
	state := b.loadState()
	isProbe := state != breakerClosed && !errors.Is(b.cause, ErrNoApp)
	if isProbe && state != breakerHalfOpenDial {
		b.setStateLocked(breakerHalfOpenAny)
	}
	b.mu.Unlock()
	if isProbe {
		b.queues.WakeOne(b)
	}
}

// OnAccepted resets the breaker of a node whose app was down, because the app has accepted a
// request. The owner reports the acceptance separately, because the response may follow much later.
func (b *Breaker) OnAccepted() {
	if b.IsTripped() && errors.Is(b.Cause(), ErrNoApp) {
		b.Reset()
	}
}

// Reset closes the breaker, which lets all requests through. The queue releases the waiting
// requests gradually.
func (b *Breaker) Reset() {
	b.mu.Lock()
	wasTripped := b.setStateLocked(breakerClosed) != breakerClosed
	if b.timer != nil {
		b.timer.Stop()
	}
	b.mu.Unlock()
	if wasTripped {
		b.queues.WakeAll(b)
	}
}

// AddWaiting adds delta, which is 1 or -1, to the number of waiting requests.
func (b *Breaker) AddWaiting(delta int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waitingRequests += delta
}

// Cause returns the cause of the last trip.
func (b *Breaker) Cause() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cause
}

// IsTripped reports whether the breaker is tripped. It costs one atomic load.
func (b *Breaker) IsTripped() bool { return b.loadState() != breakerClosed }

// SetQueues sets the queues whose requests the breaker wakes. It must be called before any other
// method.
func (b *Breaker) SetQueues(queues Queues) { b.queues = queues }
