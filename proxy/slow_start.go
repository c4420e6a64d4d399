package proxy

import "time"

const (
	// firstWindow, leastWindow and mostWindow are the initial, the smallest and the largest number
	// of new connections to an app.
	firstWindow, leastWindow, mostWindow = 16, 2, 256
	// newFor is how long a connection to the app counts as new, unless its first response arrives
	// earlier. An app that responds slowly may still accept quickly.
	newFor = 50 * time.Millisecond
	// stuckAfter is when a dial counts as dropped by the kernel, because TCP retransmits only
	// after a second.
	stuckAfter = 250 * time.Millisecond
	// mostStuck limits the number of such dials.
	mostStuck = 48
)

// slowStart limits how many connections to an app are new: being dialed, or dialed and without a
// response. The listen backlog of an app is often small, and a dial does not show that it is full:
// the kernel completes dials while there is room, and drops the next one. Only a dial that takes
// unusually long shows that, and halves the window. Each connection that gets a response, while no
// dial is stuck, widens the window by one. The mu of the pool protects all fields.
type slowStart struct {
	size     int // limit; zero means no limit, as for nodes
	unproven int // connected, and still new
	stuck    int // dials that take unusually long
}

// full reports whether no further dial may start while dialing dials are in progress, of which
// most are allowed.
func (w *slowStart) full(dialing, most int) bool {
	fresh := dialing - w.stuck
	return fresh >= most || w.stuck >= mostStuck || w.size > 0 && fresh+w.unproven >= w.size
}

func (w *slowStart) widen() {
	if w.stuck == 0 {
		w.size = min(w.size+1, mostWindow)
	}
}

func (w *slowStart) narrow() { w.size = max(w.size/2, leastWindow) }

// watchDial detects that a dial to the app takes unusually long. The caller must call over with
// p.mu held when the dial ends.
func (p *pool) watchDial() (over func()) {
	if p.node != "" {
		return func() {}
	}
	stuck, done := false, false
	timer := time.AfterFunc(stuckAfter, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !done {
			stuck = true
			p.mu.slowStart.stuck++
			p.mu.slowStart.narrow()
			p.dialForWaiters()
		}
	})
	return func() {
		timer.Stop()
		if done = true; stuck {
			p.mu.slowStart.stuck--
		}
	}
}

// startProbation counts a connection to the app as new. The caller holds p.mu.
func (p *pool) startProbation(l *upstreamConn) {
	if p.node != "" {
		return
	}
	p.mu.slowStart.unproven++
	l.unproven.Store(true)
	l.provenTimer = time.AfterFunc(newFor, func() { p.markProven(l) })
}

// markProven ends the time in which a connection counts as new: it has received a response, or
// newFor has passed.
func (p *pool) markProven(l *upstreamConn) {
	if !l.unproven.Swap(false) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l.provenTimer.Stop() // set before startProbation released mu
	p.mu.slowStart.unproven--
	p.mu.slowStart.widen()
	p.dialForWaiters()
}
