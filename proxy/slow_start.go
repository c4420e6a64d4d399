package proxy

import "time"

const (
	// firstWindow, leastWindow and mostWindow are the initial, the smallest and the largest number
	// of new connections to an app.
	firstWindow, leastWindow, mostWindow = 16, 2, 256
	// newFor is how long a connection to the app counts as new, unless its first response arrives
	// earlier. An app that responds slowly may still accept quickly.
	newFor = 50 * time.Millisecond
	// stuckAfter is the time after which a dial counts as stuck. The kernel of the app has then
	// probably dropped its SYN, which TCP retransmits only after a second.
	stuckAfter = 250 * time.Millisecond
	// mostStuck limits the number of stuck dials.
	mostStuck = 48
)

// slowStart limits the number of new connections to an app. A connection is new while it is being
// dialed, and until its first response. The listen backlog of an app is often small. A successful
// dial does not show that the backlog is full, because the kernel completes dials until the backlog
// is full and then drops the next one. Only a stuck dial shows that, and halves the limit. Each
// connection that receives a response increases the limit by one, unless a dial is stuck. pool.mu
// protects all fields.
type slowStart struct {
	size     int // limit; zero means no limit, as for nodes
	unproven int // connected, and still counted as new
	stuck    int // number of stuck dials
}

// full reports whether no further dial may start. dialing is the number of dials in progress, and
// most is the limit for dials that are not stuck.
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

// watchDial counts a dial to the app as stuck after stuckAfter. The caller must call over with p.mu
// held when the dial has ended.
func (p *pool) watchDial() (over func()) {
	if p.isForNode() {
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
	if p.isForNode() {
		return
	}
	p.mu.slowStart.unproven++
	l.unproven.Store(true)
	l.provenTimer = time.AfterFunc(newFor, func() { p.markProven(l) })
}

// markProven stops counting a connection as new, because it has received a response, or newFor has
// passed.
func (p *pool) markProven(l *upstreamConn) {
	if !l.unproven.Swap(false) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l.provenTimer.Stop() // provenTimer was set before startProbation released mu
	p.mu.slowStart.unproven--
	p.mu.slowStart.widen()
	p.dialForWaiters()
}
