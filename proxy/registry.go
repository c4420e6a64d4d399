package proxy

import (
	"sync"
	"time"

	"shardway/proxy/h1"
)

// sweepEvery is the interval of the sweep. It is the resolution of timeouts that are too frequent
// for a timer in each request.
const sweepEvery = 50 * time.Millisecond

// quiescentEvery is the number of sweeps of which one also visits quiescent WebSockets. For thousands
// of idle WebSockets, the visits are their only cost.
const quiescentEvery = 5

// registry contains the open connections of clients and other nodes. While there is one, a
// goroutine sweeps all of them every sweepEvery.
//
// Parked connections (idle_watcher.go) have no client, and a visit does not find them. WebSockets
// with two parked directions (websocket_park.go) are quiescent: every quiescentEvery-th sweep
// visits them, and each sweep for which mustSweepAll or a caller of sweepSoon requests it.
type registry struct {
	tick         func()                           // sets the clock; called before each sweep, and before the first connection
	sweep        func(list []*client, whole bool) // called from the sweeping goroutine only
	mustSweepAll func() bool                      // whether the next sweep must visit all; called from the sweeping goroutine only

	mu          sync.Mutex
	conns       map[*client]struct{}
	quiescent   map[*client]struct{} // quiescent WebSockets; these are not in conns
	parked      parking
	kick        chan struct{} // holds an element if a sweep is due at once
	stop        chan struct{} // closed when the last connection goes
	ended       chan struct{} // closed when the last sweeping goroutine has ended; nil means that there was none
	empty       chan struct{} // closed when no connection is open; nil if no caller waits
	clientsGone chan struct{} // closed when no client is connected; nil if no caller waits
	visits      int           // visits in progress
	accepted    int           // accepted client connections that have not ended
}

// add adds a connection. The first one starts the sweeping goroutine, which ends after the last
// one was removed.
func (r *registry) add(c *client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conns == nil {
		r.conns, r.quiescent = make(map[*client]struct{}), make(map[*client]struct{})
	}
	if r.conns[c] = struct{}{}; r.open() == 1 {
		r.tick()
		last := r.ended
		r.stop, r.ended = make(chan struct{}), make(chan struct{})
		go r.run(last, r.stop, r.ended)
	}
}

// remove removes a connection. alone means that no visit is in progress that could have found it.
func (r *registry) remove(c *client) (alone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
	delete(r.quiescent, c)
	if r.open() == 0 {
		close(r.stop)
		r.signalEmpty()
	}
	return r.visits == 0
}

// markQuiescent adds directions, which may be negative, to the number of parked directions of the
// WebSocket of c.
func (r *registry) markQuiescent(c *client, directions int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.parkedHalves += directions
	from, to := r.quiescent, r.conns
	if c.parkedHalves == 2 {
		from, to = to, from
	}
	if _, ok := from[c]; ok { // otherwise it is in the right map, or was removed
		delete(from, c)
		to[c] = struct{}{}
	}
}

// addAccepted counts a connection that was accepted, until removeAccepted.
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
	r.signalEmpty()
}

// signalEmpty closes empty and clientsGone when their condition holds. The caller holds mu.
func (r *registry) signalEmpty() {
	if r.clientsGone != nil && r.accepted == 0 {
		close(r.clientsGone)
		r.clientsGone = nil
	}
	if r.empty != nil && r.clientCount() == 0 && r.accepted == 0 {
		close(r.empty)
		r.empty = nil
	}
}

// run sweeps until stop is closed. It begins when the previous goroutine has ended.
func (r *registry) run(last, stop <-chan struct{}, ended chan<- struct{}) {
	defer close(ended)
	if last != nil {
		<-last
	}
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	var list []*client
	for turn := 0; ; turn++ {
		whole := turn%quiescentEvery == 0
		select {
		case <-stop:
			return
		case <-ticker.C:
		case <-r.kick:
			whole = true
		}
		r.tick()
		list = r.visitFor(list[:0], whole || r.mustSweepAll(), r.sweep)
	}
}

// sweepSoon triggers a sweep of all connections.
func (r *registry) sweepSoon() {
	select {
	case r.kick <- struct{}{}:
	default: // a sweep is already due
	}
}

// visit calls f with the open connections. It stores them in list and returns that slice. Until f
// returns, no client is reused for another connection; f must not keep a client.
func (r *registry) visit(list []*client, f func(all []*client)) []*client {
	return r.visitFor(list, true, func(all []*client, _ bool) { f(all) })
}

// visitFor is visit, with or without quiescent WebSockets. f is told whether all connections are
// included.
func (r *registry) visitFor(list []*client, whole bool, f func(all []*client, whole bool)) []*client {
	list, whole = r.enter(list, whole)
	defer r.leave()
	f(list, whole)
	clear(list)
	return list
}

// enter begins a visit and appends the open connections to list. It returns whether all are
// included.
func (r *registry) enter(list []*client, whole bool) ([]*client, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.visits++
	for c := range r.conns {
		list = append(list, c)
	}
	if whole {
		for c := range r.quiescent {
			list = append(list, c)
		}
	}
	return list, whole || len(r.quiescent) == 0
}

// leave ends a visit.
func (r *registry) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.visits--; r.visits == 0 && r.parked.still != nil {
		close(r.parked.still)
		r.parked.still = nil
	}
}

// each calls f with each open connection during a visit.
func (r *registry) each(f func(c *client)) {
	r.visit(nil, func(all []*client) {
		for _, c := range all {
			f(c)
		}
	})
}

// count returns the number of open connections, including parked ones.
func (r *registry) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open()
}

// open is count for a caller that holds mu.
func (r *registry) open() int { return r.clientCount() + len(r.parked.all) }

// clientCount returns the number of connections that have a client. The caller holds mu.
func (r *registry) clientCount() int { return len(r.conns) + len(r.quiescent) }

// none returns a channel that is closed when no connection is open.
func (r *registry) none() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clientCount() == 0 && r.accepted == 0 {
		none := make(chan struct{})
		close(none)
		return none
	}
	if r.empty == nil {
		r.empty = make(chan struct{})
	}
	return r.empty
}

// noClients returns a channel that is closed when no open connection belongs to a client.
func (r *registry) noClients() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clientsGone == nil {
		r.clientsGone = make(chan struct{})
	}
	alone := r.clientsGone
	r.signalEmpty()
	return alone
}

// cancelRuns cancels every run for which match returns true, and returns their number.
func (r *registry) cancelRuns(c cause, match func(r run, node string) bool) int {
	n := 0
	r.visit(nil, func(all []*client) {
		var closes []*h1.Conn
		for _, conn := range all {
			var cut bool
			if closes, cut = conn.slot.cancel(c, match, closes); cut {
				n++
			}
		}
		closeAll(closes)
	})
	return n
}
