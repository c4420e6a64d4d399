package proxy

import (
	"math"
	"time"

	"shardway/internal/rawio"
)

// dueGrain is the minimum time between two scans of the parked connections. For idle timeouts of
// about a minute, the resolution of the sweep is not needed.
const dueGrain = 4 * sweepEvery

// parking is the part of the registry for parked connections. The registry's mu protects it.
type parking struct {
	all   map[uint64]*parkedConn
	last  uint64        // last id
	due   time.Duration // time of the next scan for idle timeouts
	still chan struct{} // closed when no visit is in progress; nil if no caller waits
}

// parkPatience is how long park waits for a moment without visits. If visits follow each other
// closely, there may be no such moment, and nothing reads from the connection meanwhile.
const parkPatience = 500 * time.Millisecond

// park hands the connection of c to its idleWatcher and removes c. No visit is using c then. It
// reports false if c must end, or after an error.
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

// await waits until no visit is in progress, or for parkPatience. The caller holds mu, which await
// releases while it waits. A new visit may have begun when await returns.
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

// claim resumes the parked connections among those in heard, whose clients have sent something.
func (r *registry) claim(heard []rawio.Event, now time.Duration) {
	var some [16]*parkedConn
	for _, p := range r.find(heard, some[:0]) {
		p.resume(job{conn: p.conn, returnedSoon: now-p.since < parkAfterReturn})
	}
}

// find unparks the parked connections among those in heard, and appends them to list.
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

// unpark removes a parked connection, which then belongs to the caller. The caller holds mu.
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

// wake resumes the parked connections that match. With stop, they end unless their clients have
// sent something.
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

// sweepParked ends the parked connections whose idle timeout has passed, and those that have been
// idle for the patience of a leaving node.
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
func (r *registry) appendIdle(all []idleConn, now, least time.Duration) []idleConn {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.parked.all {
		if now-p.since >= least {
			all = append(all, idleConn{p.since, func() { r.end(p) }})
		}
	}
	return all
}

// end resumes p so that it ends, if it is still parked.
func (r *registry) end(p *parkedConn) {
	for _, p := range r.find([]rawio.Event{{ID: p.id}}, nil) {
		p.wake(true)
	}
}
