package proxy

import (
	"math"
	"time"

	"shardway/internal/rawio"
)

// dueGrain is how often the parked connections are looked over at most: for a minute's
// patience, the sweep's own grain is too fine.
const dueGrain = 4 * sweepEvery

// parking is what a registry knows of parked connections. Its mu guards it.
type parking struct {
	all   map[uint64]*parkedConn
	last  uint64        // id that was given
	due   time.Duration // when to look for one whose time is over; none is before
	still chan struct{} // closed once no visit is under way and someone waits
}

// parkPatience is how long a connection waits for a moment in which nobody looks at it.
// Where sweeps take longer than the pause between two there may be none for ever, and
// nobody reads meanwhile what its client says.
const parkPatience = 500 * time.Millisecond

// park puts the connection of c, which leaves the registry, into its lot. Nobody looks at c
// any more then. False: it has been told to end meanwhile, or there is an error.
func (r *registry) park(c *client, p *parkedConn) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.await()
	switch {
	case c.isEnding():
		return false, nil
	case r.visits > 0:
		return false, errRegistryBusy
	}
	r.parked.last++
	p.id = r.parked.last
	if err := p.watcher.watch(p); err != nil {
		return false, err
	}
	if r.parked.all == nil {
		r.parked.all = make(map[uint64]*parkedConn)
	}
	if len(r.parked.all) == 0 {
		r.parked.due = math.MaxInt64
	}
	r.parked.all[p.id] = p
	if p.until > 0 {
		r.parked.due = min(r.parked.due, p.until)
	}
	delete(r.conns, c)
	return true, nil
}

// await waits until no visit is under way, or for parkPatience. With mu held, but not
// meanwhile: there may be another one by the time that who waits has it again.
func (r *registry) await() {
	if r.visits == 0 {
		return
	}
	late := time.NewTimer(parkPatience)
	defer late.Stop()
	for over := false; r.visits > 0 && !over; {
		if r.parked.still == nil {
			r.parked.still = make(chan struct{})
		}
		still := r.parked.still
		r.mu.Unlock()
		select {
		case <-still:
		case <-late.C:
			over = true
		}
		r.mu.Lock()
	}
}

// claim wakes those of the connections heard of that are parked, whose clients have spoken now.
func (r *registry) claim(heard []rawio.Event, now time.Duration) {
	var some [16]*parkedConn
	for _, p := range r.find(heard, some[:0]) {
		p.resume(job{conn: p.conn, returnedSoon: now-p.since < parkAfterReturn})
	}
}

// find appends to list those heard of that are parked, and lets them go.
func (r *registry) find(heard []rawio.Event, list []*parkedConn) []*parkedConn {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range heard {
		if p := r.parked.all[h.ID]; p != nil {
			list = append(list, p)
			r.unpark(p)
		}
	}
	return list
}

// unpark lets go of a parked connection, which is the caller's from here on. With mu held.
func (r *registry) unpark(p *parkedConn) {
	delete(r.parked.all, p.id)
	if r.open() == 0 {
		close(r.stop)
	}
}

// countParked returns the number of parked connections.
func (r *registry) countParked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.parked.all)
}

// everyone matches any parked connection.
func everyone(*parkedConn) bool { return true }

// wake wakes the parked connections that match names; with stop they end, unless their
// clients have spoken.
func (r *registry) wake(stop bool, match func(p *parkedConn) bool) {
	var list []*parkedConn
	r.mu.Lock()
	for _, p := range r.parked.all {
		if match(p) {
			list = append(list, p)
			r.unpark(p)
		}
	}
	r.mu.Unlock()
	for _, p := range list {
		p.wake(stop)
	}
}

// sweepParked ends the parked connections whose time is over, and those that have been idle
// for the patience of a node that leaves.
func (r *registry) sweepParked(now, patience time.Duration) {
	r.mu.Lock()
	due := now >= r.parked.due || patience < math.MaxInt64
	if due {
		r.parked.due = math.MaxInt64
	}
	r.mu.Unlock()
	if !due {
		return
	}
	next := time.Duration(math.MaxInt64)
	r.wake(true, func(p *parkedConn) bool {
		if p.until > 0 && now >= p.until || now-p.since >= patience {
			return true
		}
		if p.until > 0 {
			next = min(next, p.until)
		}
		return false
	})
	r.mu.Lock()
	r.parked.due = min(r.parked.due, max(next, now+dueGrain))
	r.mu.Unlock()
}

// appendIdle appends the parked connections that have been idle for least at now.
func (r *registry) appendIdle(all []idler, now, least time.Duration) []idler {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.parked.all {
		if now-p.since >= least {
			all = append(all, idler{p.since, func() { r.end(p) }})
		}
	}
	return all
}

// end wakes p to end, if it is still parked.
func (r *registry) end(p *parkedConn) {
	for _, p := range r.find([]rawio.Event{{ID: p.id}}, nil) {
		p.wake(true)
	}
}
