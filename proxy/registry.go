package proxy

import (
	"sync"
	"time"

	"shardway/internal/coarsetime"
	"shardway/proxy/cause"
	"shardway/proxy/h1"
	"shardway/proxy/inflight"
)

// sweepEvery is the interval between sweeps. The sweep implements timeouts for which a timer in
// each request would be too expensive; sweepEvery is their resolution.
const sweepEvery = coarsetime.Resolution

// quiescentEvery means that one of quiescentEvery sweeps also visits quiescent WebSockets. Visits
// are the only cost of thousands of idle WebSockets, so they are less frequent.
const quiescentEvery = 5

// registry contains the open connections of clients and of other nodes. While it contains a
// connection, a goroutine sweeps all connections every sweepEvery.
//
// A visit is a call of a function with a list of the connections. During a visit, the clients in
// the list are not reused for other connections. A sweep is a visit.
//
// Parked connections (idle_watcher.go) have no client, so visits do not include them. A WebSocket
// whose two directions are parked (package wsrelay) is quiescent. Only every quiescentEvery-th
// sweep includes quiescent WebSockets, unless mustSweepAll returns true or sweepSoon was called.
type registry struct {
	// Functions of the sweep. Only the sweeping goroutine calls them, except tick.

	tick         func()                                 // updates the clock; called before each sweep, and before the first connection is added
	sweep        func(clients []*client, complete bool) // complete means that clients includes quiescent WebSockets
	mustSweepAll func() bool                            // reports whether the next sweep must include quiescent WebSockets

	// mu protects the following fields.
	mu        sync.Mutex
	conns     map[*client]struct{}
	quiescent map[*client]struct{} // quiescent WebSockets; these are not in conns
	parked    parkedConns
	accepted  int // number of accepted client connections that have not ended
	visits    int // number of visits in progress

	// The sweeping goroutine.

	sweepRequested chan struct{} // contains an element if sweepSoon has requested a sweep
	stop           chan struct{} // closed when the last connection is removed
	ended          chan struct{} // closed when the last sweeping goroutine has exited; nil means that there was none

	// Waiting for the end of all connections.

	connsClosed   chan struct{} // closed when no connection is open; nil if no caller waits
	clientsClosed chan struct{} // closed when no client is connected; nil if no caller waits
}

// add adds a connection. The first connection starts the sweeping goroutine, which exits after the
// last connection was removed.
func (r *registry) add(c *client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conns == nil {
		r.conns, r.quiescent = make(map[*client]struct{}), make(map[*client]struct{})
	}
	r.conns[c] = struct{}{}
	isFirst := r.openLocked() == 1
	if isFirst {
		r.tick()
		previousEnded := r.ended
		r.stop, r.ended = make(chan struct{}), make(chan struct{})
		go r.run(previousEnded, r.stop, r.ended)
	}
}

// remove removes a connection. unobserved means that no visit is in progress, so that no other
// goroutine can have found c in the registry.
func (r *registry) remove(c *client) (unobserved bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
	delete(r.quiescent, c)
	if r.openLocked() == 0 {
		close(r.stop)
		r.signalEmptyLocked()
	}
	return r.visits == 0
}

// markQuiescent changes the number of parked directions of the WebSocket of c by directions. A
// WebSocket with two parked directions is moved to quiescent.
func (r *registry) markQuiescent(c *client, directions int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.parkedDirections += directions
	source, target := r.quiescent, r.conns
	if c.parkedDirections == 2 {
		source, target = target, source
	}
	if _, mustMove := source[c]; mustMove { // otherwise c is already in the right map, or has been removed
		delete(source, c)
		target[c] = struct{}{}
	}
}

// addAccepted counts an accepted connection, until the caller calls removeAccepted.
func (r *registry) addAccepted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accepted++
}

// removeAccepted is called when a connection that was counted by addAccepted has ended.
func (r *registry) removeAccepted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accepted--
	r.signalEmptyLocked()
}

// signalEmptyLocked closes the channels of r if their conditions are fulfilled. The caller must
// hold mu.
func (r *registry) signalEmptyLocked() {
	if r.clientsClosed != nil && r.accepted == 0 {
		close(r.clientsClosed)
		r.clientsClosed = nil
	}
	if r.connsClosed != nil && r.clientCountLocked() == 0 && r.accepted == 0 {
		close(r.connsClosed)
		r.connsClosed = nil
	}
}

// run sweeps until stop is closed, and then closes ended. It first waits until previousEnded is
// closed, so that only one goroutine sweeps. nil means that there was no previous goroutine.
func (r *registry) run(previousEnded, stop <-chan struct{}, ended chan<- struct{}) {
	defer close(ended)
	if previousEnded != nil {
		<-previousEnded
	}
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	var list []*client
	for round := 0; ; round++ {
		complete := round%quiescentEvery == 0
		select {
		case <-stop:
			return
		case <-ticker.C:
		case <-r.sweepRequested:
			complete = true
		}
		r.tick()
		list = r.withSomeClients(list[:0], complete || r.mustSweepAll(), r.sweep)
	}
}

// sweepSoon triggers an immediate sweep of all connections.
func (r *registry) sweepSoon() {
	select {
	case r.sweepRequested <- struct{}{}:
	default: // a sweep is already due
	}
}

// withClients calls visit with all open connections that have a client. It stores them in list, and
// returns the slice for reuse. Until visit returns, no client in the list is reused for another
// connection. visit must not keep a reference to a client.
func (r *registry) withClients(list []*client, visit func(all []*client)) []*client {
	return r.withSomeClients(list, true, func(all []*client, _ bool) { visit(all) })
}

// withSomeClients is like withClients, but includes quiescent WebSockets only with complete. The
// argument complete of visit reports whether all connections are included.
func (r *registry) withSomeClients(list []*client, complete bool, visit func(all []*client, complete bool)) []*client {
	list, complete = r.beginVisit(list, complete)
	defer r.endVisit()
	visit(list, complete)
	clear(list)
	return list
}

// beginVisit starts a visit, and appends the open connections to list. It returns whether all of
// them are included.
func (r *registry) beginVisit(list []*client, complete bool) ([]*client, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.visits++
	for c := range r.conns {
		list = append(list, c)
	}
	if complete {
		for c := range r.quiescent {
			list = append(list, c)
		}
	}
	return list, complete || len(r.quiescent) == 0
}

// endVisit ends a visit, and wakes callers of awaitNoVisits after the last visit.
func (r *registry) endVisit() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.visits--
	if r.visits == 0 && r.parked.noVisits != nil {
		close(r.parked.noVisits)
		r.parked.noVisits = nil
	}
}

// each visits all open connections, and calls visit with each of them.
func (r *registry) each(visit func(c *client)) {
	r.withClients(nil, func(all []*client) {
		for _, c := range all {
			visit(c)
		}
	})
}

// count returns the number of open connections, including parked ones.
func (r *registry) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.openLocked()
}

// openLocked is like count. The caller must hold mu.
func (r *registry) openLocked() int { return r.clientCountLocked() + len(r.parked.conns) }

// clientCountLocked returns the number of connections that have a client. The caller holds mu.
func (r *registry) clientCountLocked() int { return len(r.conns) + len(r.quiescent) }

// allClosed returns a channel that is closed when no connection is open.
func (r *registry) allClosed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clientCountLocked() == 0 && r.accepted == 0 {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	if r.connsClosed == nil {
		r.connsClosed = make(chan struct{})
	}
	return r.connsClosed
}

// allClientsClosed returns a channel that is closed when no accepted client connection is open.
func (r *registry) allClientsClosed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clientsClosed == nil {
		r.clientsClosed = make(chan struct{})
	}
	closed := r.clientsClosed
	r.signalEmptyLocked()
	return closed
}

// cancelRuns cancels each run for which match returns true, and returns the number of cancelled
// runs. node is the owner of a run at another node.
func (r *registry) cancelRuns(cancelCause cause.Cause, match func(current inflight.Run, node string) bool) int {
	count := 0
	r.withClients(nil, func(all []*client) {
		var closes []*h1.Conn
		for _, c := range all {
			var cancelled bool
			closes, cancelled = c.slot.Cancel(cancelCause, match, closes)
			if cancelled {
				count++
			}
		}
		inflight.CloseAll(closes)
	})
	return count
}
