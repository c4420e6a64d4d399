package connset

import (
	"context"
	"errors"
	"math"
	"net"
	"sync"
	"time"

	"shardway/internal/coarsetime"
	"shardway/internal/netpoll"
)

// Watcher watches the parked connections of a listener. Its fields must be set before the first call
// of Set.Park. On systems other than Linux, no connection is parked.
type Watcher struct {
	// Ctx is the context of the listener.
	Ctx context.Context //nolint:containedctx // lives as long as the listener
	// Clock is the clock of the server.
	Clock *coarsetime.Clock
	// Goroutines counts the goroutines of the listener, and also its parked connections.
	Goroutines *sync.WaitGroup
	// Resume starts to serve a connection that was parked. It must not block.
	Resume func(Resumed)
	// Sockets calls back when a connection becomes readable. The owner of the Watcher closes it.
	Sockets netpoll.Watcher
}

// Resumed is a connection that is no longer parked.
type Resumed struct {
	Conn         net.Conn
	MustStop     bool // the connection must close unless a request has arrived
	ReturnedSoon bool // the connection was idle for less than ReturnSoon
}

// ReturnSoon is the limit of Resumed.ReturnedSoon. A client that sends data after a shorter idle
// time will probably do so again, so the server waits longer before it parks the connection again.
// Parking and resuming costs about half as much as forwarding a request, which is more than it
// saves for a client that sends a request every few seconds.
const ReturnSoon = 10 * time.Second

// Parked is a parked connection: an idle client connection without a goroutine and without buffers.
//
// At any time, the connection has exactly one owner:
//
//   - the client object of type C (the type parameter of Set), until Set.Park has parked it
//   - the Watcher, while it is parked
//   - the goroutine that has unparked it: that of Watcher.Sockets when the client sends something, the
//     sweep when the idle timeout has passed, or a goroutine that closes connections
//
// The last of these owners calls Watcher.Resume, which creates a new C for the connection. An event
// may arrive late, after its connection was resumed and parked again. Each parking therefore uses a
// new Parked value, and events for a Parked that has left the Set are ignored.
//
//	C ──Park──► Parked ──unpark──► another C
type Parked struct {
	Conn         net.Conn
	Watcher      *Watcher
	IdleSince    time.Duration // when it became idle, by the clock of the server
	IdleDeadline time.Duration // when its idle timeout ends; zero means no timeout

	stopWatching func()
}

// Wake resumes a connection that Unpark has removed. If mustStop is set, the connection is closed
// unless its client has sent data.
func (parked *Parked) Wake(mustStop bool) {
	parked.resume(Resumed{Conn: parked.Conn, MustStop: mustStop})
}

// resume gives a connection that was unparked to the Watcher, which serves it again.
func (parked *Parked) resume(next Resumed) {
	parked.stopWatching()
	parked.Watcher.Resume(next)
	parked.Watcher.Goroutines.Done()
}

// scanInterval is the minimum time between two scans of the parked connections. Idle timeouts are about
// a minute, so they do not need the resolution of the sweep.
const scanInterval = 4 * SweepInterval

// parkedConns contains the parked connections of a Set. Set.mu protects it.
type parkedConns struct {
	conns    map[*Parked]struct{}
	nextScan time.Duration // time of the next scan for idle timeouts
	noVisits chan struct{} // closed when no visit is in progress; nil means that no caller waits for that
}

// maxParkWait is how long Park waits for a moment in which no visit is in progress. Closely spaced
// visits may leave no such moment. The wait is short because nothing reads from the connection
// in the meantime.
const maxParkWait = 500 * time.Millisecond

var errVisited = errors.New("connset: connections are being visited all the time")

// Park hands the connection of c to its Watcher and removes c from the Set. No visit can then hold
// c, so c can be reused. It returns false and no error if the connection must end.
func (s *Set[C]) Park(c C, parked *Parked) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaitNoVisitsLocked()
	switch {
	case c.IsEnding():
		return false, nil
	case s.visits > 0:
		return false, errVisited
	}
	var err error
	if parked.stopWatching, err = parked.Watcher.Sockets.Watch(parked.Conn, func() { s.ResumeReadable(parked, parked.Watcher.Clock.Now()) }); err != nil {
		return false, err
	}
	parked.Watcher.Goroutines.Add(1)
	if s.parked.conns == nil {
		s.parked.conns = make(map[*Parked]struct{})
	}
	if len(s.parked.conns) == 0 {
		s.parked.nextScan = math.MaxInt64
	}
	s.parked.conns[parked] = struct{}{}
	if parked.IdleDeadline > 0 {
		s.parked.nextScan = min(s.parked.nextScan, parked.IdleDeadline)
	}
	delete(s.conns, c)
	return true, nil
}

// awaitNoVisitsLocked waits until no visit is in progress, for up to maxParkWait. The caller must
// hold mu; awaitNoVisitsLocked releases it while it waits. A visit may still be in progress after a
// timeout, so the caller must check visits.
func (s *Set[C]) awaitNoVisitsLocked() {
	if s.visits == 0 {
		return
	}
	timeout := time.NewTimer(maxParkWait)
	defer timeout.Stop()
	for timedOut := false; s.visits > 0 && !timedOut; {
		if s.parked.noVisits == nil {
			s.parked.noVisits = make(chan struct{})
		}
		noVisits := s.parked.noVisits
		s.mu.Unlock()
		select {
		case <-noVisits:
		case <-timeout.C:
			timedOut = true
		}
		s.mu.Lock()
	}
}

// AwaitsVisits reports whether a connection will be parked as soon as no visit is in progress.
func (s *Set[C]) AwaitsVisits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parked.noVisits != nil
}

// ResumeReadable resumes a parked connection whose client has sent data or disconnected. It does
// nothing and returns false if the connection is no longer parked.
func (s *Set[C]) ResumeReadable(parked *Parked, now time.Duration) bool {
	if !s.unparkOnce(parked) {
		return false
	}
	parked.resume(Resumed{Conn: parked.Conn, ReturnedSoon: now-parked.IdleSince < ReturnSoon})
	return true
}

// unparkOnce unparks a connection, and reports whether it was parked.
func (s *Set[C]) unparkOnce(parked *Parked) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, found := s.parked.conns[parked]; !found {
		return false
	}
	s.unparkLocked(parked)
	return true
}

// unparkLocked removes a parked connection. The caller becomes its owner, and must resume it. The
// caller must hold mu.
func (s *Set[C]) unparkLocked(parked *Parked) {
	delete(s.parked.conns, parked)
	if s.openLocked() == 0 {
		close(s.stop)
	}
}

// CountParked returns the number of parked connections.
func (s *Set[C]) CountParked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.parked.conns)
}

// AnyParked matches any parked connection.
func AnyParked(*Parked) bool { return true }

// Unpark removes the parked connections for which match returns true. The caller becomes their owner,
// and must call Wake for each.
func (s *Set[C]) Unpark(match func(parked *Parked) bool) []*Parked {
	var list []*Parked
	s.mu.Lock()
	defer s.mu.Unlock()
	for parked := range s.parked.conns {
		if match(parked) {
			list = append(list, parked)
			s.unparkLocked(parked)
		}
	}
	return list
}

// WakeParked resumes the parked connections for which match returns true. With mustStop, a resumed
// connection is closed unless its client has sent data.
func (s *Set[C]) WakeParked(mustStop bool, match func(parked *Parked) bool) {
	for _, parked := range s.Unpark(match) {
		parked.Wake(mustStop)
	}
}

// SweepParked closes the parked connections whose idle timeout has passed. It also closes the
// connections that have been idle for at least idleLimit, which is finite only while this node is
// leaving.
func (s *Set[C]) SweepParked(now, idleLimit time.Duration) {
	s.mu.Lock()
	mustScan := now >= s.parked.nextScan || idleLimit < math.MaxInt64
	if mustScan {
		s.parked.nextScan = math.MaxInt64
	}
	s.mu.Unlock()
	if !mustScan {
		return
	}
	nextDeadline := time.Duration(math.MaxInt64)
	s.WakeParked(true, func(parked *Parked) bool {
		if parked.IdleDeadline > 0 && now >= parked.IdleDeadline || now-parked.IdleSince >= idleLimit {
			return true
		}
		if parked.IdleDeadline > 0 {
			nextDeadline = min(nextDeadline, parked.IdleDeadline)
		}
		return false
	})
	s.mu.Lock()
	s.parked.nextScan = min(s.parked.nextScan, max(nextDeadline, now+scanInterval))
	s.mu.Unlock()
}

// appendParked appends the parked connections that have been idle since deadline or earlier.
func (s *Set[C]) appendParked(idle []IdleConn, deadline time.Duration) []IdleConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	for parked := range s.parked.conns {
		if parked.IdleSince <= deadline {
			idle = append(idle, IdleConn{parked.IdleSince, func() { s.closeParked(parked) }})
		}
	}
	return idle
}

// closeParked closes a connection if it is still parked and its client has sent no data.
func (s *Set[C]) closeParked(parked *Parked) {
	if s.unparkOnce(parked) {
		parked.Wake(true)
	}
}
