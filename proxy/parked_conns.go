package proxy

import (
	"math"
	"time"
)

// scanInterval is the minimum time between two scans of the parked connections. Idle timeouts are about
// a minute, so they do not need the resolution of the sweep.
const scanInterval = 4 * sweepEvery

// parkedConns is the registry's state for parked connections: idle client connections without a
// goroutine. registry.mu protects it.
type parkedConns struct {
	conns    map[*parkedConn]struct{}
	nextScan time.Duration // time of the next scan for idle timeouts
	noVisits chan struct{} // closed when no visit (registry.withClients) is in progress; nil means that no caller waits for that
}

// maxParkWait is how long addParked waits for a moment in which no visit is in progress. If visits
// follow each other closely, there may be no such moment. The wait is short because nothing reads
// from the connection in the meantime.
const maxParkWait = 500 * time.Millisecond

// addParked hands the connection of c to its idleWatcher and removes c from the registry. No visit
// can hold c then, so that c can be reused. It returns false and no error if the connection of c
// must end.
func (r *registry) addParked(c *client, parked *parkedConn) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.awaitNoVisits()
	switch {
	case c.isEnding():
		return false, nil
	case r.visits > 0:
		return false, errRegistryBusy
	}
	var err error
	if parked.cancel, err = parked.watcher.sockets.Watch(parked.conn, func() { r.resumeReady(parked, parked.watcher.clock.Now()) }); err != nil {
		return false, err
	}
	parked.watcher.workers.Group().Add(1)
	if r.parked.conns == nil {
		r.parked.conns = make(map[*parkedConn]struct{})
	}
	if len(r.parked.conns) == 0 {
		r.parked.nextScan = math.MaxInt64
	}
	r.parked.conns[parked] = struct{}{}
	if parked.idleDeadline > 0 {
		r.parked.nextScan = min(r.parked.nextScan, parked.idleDeadline)
	}
	delete(r.conns, c)
	return true, nil
}

// awaitNoVisits waits until no visit is in progress, for up to maxParkWait. The caller must hold mu;
// awaitNoVisits releases it while it waits. After a timeout a visit may still be in progress, so the
// caller must check visits.
func (r *registry) awaitNoVisits() {
	if r.visits == 0 {
		return
	}
	timeout := time.NewTimer(maxParkWait)
	defer timeout.Stop()
	for timedOut := false; r.visits > 0 && !timedOut; {
		if r.parked.noVisits == nil {
			r.parked.noVisits = make(chan struct{})
		}
		noVisits := r.parked.noVisits
		r.mu.Unlock()
		select {
		case <-noVisits:
		case <-timeout.C:
			timedOut = true
		}
		r.mu.Lock()
	}
}

// resumeReady resumes a parked connection whose client has sent data or disconnected. It does nothing
// if the connection is not parked any more.
func (r *registry) resumeReady(parked *parkedConn, now time.Duration) {
	if r.unparkOnce(parked) {
		parked.resume(job{conn: parked.conn, returnedSoon: now-parked.idleSince < parkAfterReturn})
	}
}

// unparkOnce unparks the connection parked, and reports whether it was parked.
func (r *registry) unparkOnce(parked *parkedConn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, found := r.parked.conns[parked]; !found {
		return false
	}
	r.unpark(parked)
	return true
}

// unpark removes a parked connection from the registry. The caller becomes its owner, and must
// resume it. The caller must hold mu.
func (r *registry) unpark(parked *parkedConn) {
	delete(r.parked.conns, parked)
	if r.openLocked() == 0 {
		close(r.stop)
	}
}

// countParked returns the number of parked connections.
func (r *registry) countParked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.parked.conns)
}

// matchAll matches any parked connection.
func matchAll(*parkedConn) bool { return true }

// wake resumes the parked connections for which match returns true. With stop, a resumed connection
// is closed unless its client has sent data.
func (r *registry) wake(stop bool, match func(parked *parkedConn) bool) {
	var list []*parkedConn
	r.mu.Lock()
	for parked := range r.parked.conns {
		if match(parked) {
			list = append(list, parked)
			r.unpark(parked)
		}
	}
	r.mu.Unlock()
	for _, parked := range list {
		parked.wake(stop)
	}
}

// sweepParked closes the parked connections whose idle timeout has passed. It also closes the
// connections that have been idle for at least idleLimit, which is finite only while this node is
// leaving.
func (r *registry) sweepParked(now, idleLimit time.Duration) {
	r.mu.Lock()
	mustScan := now >= r.parked.nextScan || idleLimit < math.MaxInt64
	if mustScan {
		r.parked.nextScan = math.MaxInt64
	}
	r.mu.Unlock()
	if !mustScan {
		return
	}
	nextDeadline := time.Duration(math.MaxInt64)
	r.wake(true, func(parked *parkedConn) bool {
		if parked.idleDeadline > 0 && now >= parked.idleDeadline || now-parked.idleSince >= idleLimit {
			return true
		}
		if parked.idleDeadline > 0 {
			nextDeadline = min(nextDeadline, parked.idleDeadline)
		}
		return false
	})
	r.mu.Lock()
	r.parked.nextScan = min(r.parked.nextScan, max(nextDeadline, now+scanInterval))
	r.mu.Unlock()
}

// appendIdle appends to all the parked connections that have been idle for at least least at the
// time now.
func (r *registry) appendIdle(idle []idleConn, now, minIdle time.Duration) []idleConn {
	r.mu.Lock()
	defer r.mu.Unlock()
	for parked := range r.parked.conns {
		if now-parked.idleSince >= minIdle {
			idle = append(idle, idleConn{parked.idleSince, func() { r.closeParked(parked) }})
		}
	}
	return idle
}

// closeParked closes the connection parked if it is still parked and its client has sent no data.
func (r *registry) closeParked(parked *parkedConn) {
	if r.unparkOnce(parked) {
		parked.wake(true)
	}
}
