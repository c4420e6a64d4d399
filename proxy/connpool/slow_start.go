package connpool

import "time"

const (
	// initialNewConns, minNewConns and maxNewConns are the initial, the smallest and the largest limit of
	// new connections to an app.
	initialNewConns = 16
	minNewConns     = 2
	maxNewConns     = 256
	// newConnTime is how long a connection to the app is treated as new, unless its first response
	// arrives earlier. An app that responds slowly may still accept quickly.
	newConnTime = 50 * time.Millisecond
	// stuckDialTime is the time after which a dial is treated as stuck. The app's kernel has then
	// probably dropped the SYN, which TCP retransmits only after a second.
	stuckDialTime = 250 * time.Millisecond
	// maxStuckDials limits the number of stuck dials.
	maxStuckDials = 48
)

// slowStart limits the number of new connections to an app. A connection is new while it is being
// dialed, and until its first response. The listen backlog of an app is often small. Successful
// dials say nothing about the backlog, because the kernel completes dials until the backlog is full
// and then drops the next one. Only a stuck dial shows that the backlog is full, and halves the
// limit. Each connection that receives a response increases the limit by one, unless a dial is
// stuck. Pool.mu protects all fields.
type slowStart struct {
	limit    int // maximum number of new connections; zero means no limit, as for nodes
	unproven int // connected, and still counted as new
	stuck    int // number of stuck dials
}

// isFull reports whether no further dial may start. activeDials is the number of dials in progress
// that are not stuck.
func (slow *slowStart) isFull(activeDials int) bool {
	newConns := activeDials + slow.unproven
	return slow.stuck >= maxStuckDials || slow.limit > 0 && newConns >= slow.limit
}

// raiseLimit increases the limit, unless a dial is stuck.
func (slow *slowStart) raiseLimit() {
	if slow.stuck == 0 {
		slow.limit = min(slow.limit+1, maxNewConns)
	}
}

// halveLimit halves the limit.
func (slow *slowStart) halveLimit() { slow.limit = max(slow.limit/2, minNewConns) }

// watchDial counts a dial to the app as stuck after stuckDialTime. The caller must call stop with p.mu
// held when the dial has ended.
func (p *Pool) watchDial() (stop func()) {
	if p.IsForNode() {
		return func() {}
	}
	isStuck, hasEnded := false, false // p.mu protects them
	timer := time.AfterFunc(stuckDialTime, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if hasEnded {
			return
		}
		isStuck = true
		p.mu.dials.slowStart.stuck++
		p.mu.dials.slowStart.halveLimit()
		p.dialForWaiters()
	})
	return func() {
		timer.Stop()
		hasEnded = true
		if isStuck {
			p.mu.dials.slowStart.stuck--
		}
	}
}

// startProbation counts a connection to the app as new. The caller holds p.mu.
func (p *Pool) startProbation(conn *Conn) {
	if p.IsForNode() {
		return
	}
	p.mu.dials.slowStart.unproven++
	conn.unproven.Store(true)
	conn.provenTimer = time.AfterFunc(newConnTime, func() { p.MarkProven(conn) })
}

// MarkProven stops counting a connection as new, because it has received a response, or newConnTime has
// passed.
func (p *Pool) MarkProven(conn *Conn) {
	if !conn.unproven.Swap(false) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	conn.provenTimer.Stop() // provenTimer was set before startProbation released mu
	p.mu.dials.slowStart.unproven--
	p.mu.dials.slowStart.raiseLimit()
	p.dialForWaiters()
}
