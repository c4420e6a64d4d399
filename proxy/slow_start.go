package proxy

import "time"

const (
	// firstWindow is how many connections to an app may be new at first, and
	// mostWindow how many in the end.
	firstWindow, leastWindow, mostWindow = 16, 2, 256
	// newFor is for how long a connection to the app is new, unless its first
	// answer comes before: an app that is slow to answer is not slow to accept.
	newFor = 50 * time.Millisecond
	// stuckAfter is when a dial is taken for one that the kernel dropped: TCP tries
	// again only after a second.
	stuckAfter = 250 * time.Millisecond
	// mostStuck bounds those that are waited for.
	mostStuck = 48
)

// slowStart bounds how many connections to an app are new: being made, or made and
// not answered yet. An app has a backlog of its own, often a small one, and
// connects do not show when it is full: the kernel completes them while there is
// room and drops the next one. Only a dial that takes unusually long tells, and
// halves the window; each that is answered, while none is stuck, widens it by one.
// All with the pool's mu held.
type slowStart struct {
	size     int // zero: not bounded, as for nodes
	unproven int // made and still new
	stuck    int // dials that take unusually long
}

// full reports whether there may be no further new one beside so many dials, of which there
// may be most.
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

// watchDial notes when a dial to the app takes unusually long. The returned
// function ends the watch, with mu held.
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

// startProbation counts a connection to the app as new. With mu held.
func (p *pool) startProbation(l *upstreamConn) {
	if p.node != "" {
		return
	}
	p.mu.slowStart.unproven++
	l.unproven.Store(true)
	l.provenTimer = time.AfterFunc(newFor, func() { p.markProven(l) })
}

// markProven counts a connection as new no more: it was answered, or has had its time.
func (p *pool) markProven(l *upstreamConn) {
	if !l.unproven.Swap(false) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l.provenTimer.Stop() // begin may still hold mu: it has only just made the timer
	p.mu.slowStart.unproven--
	p.mu.slowStart.widen()
	p.dialForWaiters()
}
