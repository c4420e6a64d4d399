package proxy

import (
	"sync"
	"time"

	"shardway/proxy/h1"
)

// sweepEvery is how often the connections are looked over. It is the grain of
// what is too frequent to have a timer of its own per request.
const sweepEvery = 50 * time.Millisecond

// restEvery is how many sweeps there are to one that looks at sockets at rest, too: of
// thousands of those, looking is all that they cost.
const restEvery = 5

// registry holds the connections that are open, clients' and other nodes'. While
// there is one, a goroutine looks them all over every sweepEvery. Those that are parked
// (idle_watcher.go) are no clients meanwhile, and a visit does not find them. Those that are kept
// sockets both of whose directions are parked (websocket_park.go) are at rest: they are looked over
// with every restEvery-th sweep, and whenever whole says so, or somebody asked for it.
type registry struct {
	tick  func()                           // sets the clock; called before each sweep, and before the first connection
	sweep func(list []*client, whole bool) // called from the sweeping goroutine only
	whole func() bool                      // likewise: the next sweep is one of all

	mu        sync.Mutex
	conns     map[*client]struct{}
	quiescent map[*client]struct{} // at rest, and in conns no more
	parked    parking
	kick      chan struct{} // has one when there is a reason to sweep at once
	stop      chan struct{} // closed when the last connection goes
	ended     chan struct{} // closed when the last sweeping goroutine has ended; nil: there was none
	empty     chan struct{} // closed while there are none and someone waits
	alone     chan struct{} // closed while no client is connected and someone waits
	looks     int           // visits that are under way
	due       int           // accepted, and not gone; those that are no client yet count too
}

// add takes a connection in; the first starts the sweeping goroutine, which ends
// after the last was removed.
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

// remove lets a connection go. Alone means that nobody has found it here who still looks
// at it, nor will.
func (r *registry) remove(c *client) (alone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
	delete(r.quiescent, c)
	if r.open() == 0 {
		close(r.stop)
		r.tell()
	}
	return r.looks == 0
}

// markQuiescent says that a direction of the socket that c has become is parked, or with less than zero
// that it is not any more.
func (r *registry) markQuiescent(c *client, directions int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.parkedHalves += directions
	from, to := r.quiescent, r.conns
	if c.parkedHalves == 2 {
		from, to = to, from
	}
	if _, ok := from[c]; ok { // else it is where it belongs, or gone
		delete(from, c)
		to[c] = struct{}{}
	}
}

// expect counts a connection that has been accepted, until met.
func (r *registry) expect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due++
}

// met is called when a connection that was expected is gone.
func (r *registry) met() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due--
	r.tell()
}

// tell closes empty when nothing is left, and alone when no client is. With mu held.
func (r *registry) tell() {
	if r.alone != nil && r.due == 0 {
		close(r.alone)
		r.alone = nil
	}
	if r.empty != nil && r.carried() == 0 && r.due == 0 {
		close(r.empty)
		r.empty = nil
	}
}

// run sweeps until stop is closed, once the last goroutine has ended.
func (r *registry) run(last, stop <-chan struct{}, ended chan<- struct{}) {
	defer close(ended)
	if last != nil {
		<-last
	}
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	var list []*client
	for turn := 0; ; turn++ {
		whole := turn%restEvery == 0
		select {
		case <-stop:
			return
		case <-ticker.C:
		case <-r.kick:
			whole = true
		}
		r.tick()
		list = r.look(list[:0], whole || r.whole(), r.sweep)
	}
}

// hurry has all connections swept as soon as that can be.
func (r *registry) hurry() {
	select {
	case r.kick <- struct{}{}:
	default: // it is due
	}
}

// visit calls f with the open connections, in the memory of list, and returns that. Until f
// returns, none of them becomes another one; f keeps none.
func (r *registry) visit(list []*client, f func(all []*client)) []*client {
	return r.look(list, true, func(all []*client, _ bool) { f(all) })
}

// look is visit, with or without those at rest. F is told whether all are there.
func (r *registry) look(list []*client, whole bool, f func(all []*client, whole bool)) []*client {
	list, whole = r.enter(list, whole)
	defer r.leave()
	f(list, whole)
	clear(list)
	return list
}

// enter appends the open connections to list, with or without those at rest, and begins a
// visit. It returns whether all are there.
func (r *registry) enter(list []*client, whole bool) ([]*client, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looks++
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
	if r.looks--; r.looks == 0 && r.parked.still != nil {
		close(r.parked.still)
		r.parked.still = nil
	}
}

// each calls f with each open connection, as visit does.
func (r *registry) each(f func(c *client)) {
	r.visit(nil, func(all []*client) {
		for _, c := range all {
			f(c)
		}
	})
}

// count returns the number of open connections, with those that are parked.
func (r *registry) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open()
}

// open is count. With mu held.
func (r *registry) open() int { return r.carried() + len(r.parked.all) }

// carried returns the number of those that are somebody's. With mu held.
func (r *registry) carried() int { return len(r.conns) + len(r.quiescent) }

// none returns a channel that is closed once no connection is open.
func (r *registry) none() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.carried() == 0 && r.due == 0 {
		none := make(chan struct{})
		close(none)
		return none
	}
	if r.empty == nil {
		r.empty = make(chan struct{})
	}
	return r.empty
}

// noClients returns a channel that is closed once none of the open connections is a
// client's.
func (r *registry) noClients() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.alone == nil {
		r.alone = make(chan struct{})
	}
	alone := r.alone
	r.tell()
	return alone
}

// cut cuts every run that match names, and returns how many.
func (r *registry) cut(c cause, match func(r run, node string) bool) int {
	n := 0
	r.visit(nil, func(all []*client) {
		var closes []*h1.Conn
		for _, conn := range all {
			var cut bool
			if closes, cut = conn.slot.cut(c, match, closes); cut {
				n++
			}
		}
		closeAll(closes)
	})
	return n
}
