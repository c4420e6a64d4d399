package connset

import (
	"crypto/tls"
	"sync"
	"time"

	"shardway/internal/coarsetime"
)

// SweepInterval is the interval between sweeps. The sweep implements timeouts for which one timer per
// request would be too expensive. SweepInterval is the resolution of these timeouts.
const SweepInterval = coarsetime.Resolution

// quiescentEvery is the number of sweeps between two visits to quiescent WebSockets. Sweeps are the
// only recurring cost of an idle WebSocket, and a node may have thousands of them.
const quiescentEvery = 5

// Conn is an open connection that is not parked.
type Conn interface {
	comparable
	// IsEnding reports whether the connection must close instead of being parked. It must not block.
	IsEnding() bool
}

// Hooks contains what a Set calls. All fields must be set.
type Hooks[C Conn] struct {
	// Tick updates the clock. It is called before each sweep, and before the first connection is
	// added.
	Tick func()
	// Sweep checks the connections in list for expired timeouts. complete reports whether list contains
	// all connections. Only the sweeping goroutine calls it.
	Sweep func(list []C, complete bool)
	// MustSweepAll reports whether the next sweep must include quiescent WebSockets. Only the sweeping
	// goroutine calls it.
	MustSweepAll func() bool
}

// Set contains the open connections of clients and of other nodes. While it contains a connection, a
// goroutine sweeps it every SweepInterval. Init prepares it.
//
// A visit calls a function with a list of the connections. A sweep is a visit. Another goroutine may
// still use a connection from such a list after the connection was removed from the Set: see Remove.
//
// An idle HTTP connection can be parked: no goroutine reads from it, and it has no C. Visits therefore
// do not include parked connections. Each direction of a WebSocket can be parked, too. A WebSocket with
// two parked directions is quiescent. It keeps its C, but only every quiescentEvery-th sweep includes
// it, unless MustSweepAll returns true or SweepSoon was called.
type Set[C Conn] struct {
	hooks          Hooks[C]
	sweepRequested chan struct{} // contains an element if SweepSoon has requested a sweep

	// mu protects the following fields.
	mu            sync.Mutex
	conns         map[C]parkedDirections // without quiescent WebSockets
	quiescent     map[C]parkedDirections // quiescent WebSockets
	parked        parkedConns
	handshakes    map[*tls.Conn]IdleConn // connections whose TLS handshake is in progress; these are not in conns
	stop          chan struct{}          // closed when the last connection is removed
	ended         chan struct{}          // closed when the last sweeping goroutine has exited; nil means that there was none
	connsClosed   chan struct{}          // closed when no connection is open; nil if no caller waits
	clientsClosed chan struct{}          // closed when no client is connected; nil if no caller waits
	visits        int                    // number of visits in progress
	accepted      int                    // number of accepted client connections that have not ended
}

// parkedDirections is the number of parked directions of a WebSocket, 0 to 2. It is 0 for an HTTP
// connection.
type parkedDirections int

// Init prepares the Set. It must be called before all other methods.
func (s *Set[C]) Init(hooks Hooks[C]) {
	s.hooks, s.sweepRequested = hooks, make(chan struct{}, 1)
	s.conns, s.quiescent = make(map[C]parkedDirections), make(map[C]parkedDirections)
	s.handshakes = make(map[*tls.Conn]IdleConn)
}

// Add adds a connection. The first connection starts the sweeping goroutine, which exits after the
// last connection was removed.
func (s *Set[C]) Add(c C) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns[c] = 0; s.openLocked() == 1 {
		s.hooks.Tick()
		previousEnded := s.ended
		s.stop, s.ended = make(chan struct{}), make(chan struct{})
		go s.run(previousEnded, s.stop, s.ended)
	}
}

// Remove removes a connection. unobserved reports whether no visit is in progress, so that no other
// goroutine still uses a reference to c from the Set and c's memory can be reused.
func (s *Set[C]) Remove(c C) (unobserved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	delete(s.quiescent, c)
	if s.openLocked() == 0 {
		close(s.stop)
		s.signalEmptyLocked()
	}
	return s.visits == 0
}

// ChangeParkedDirections changes the number of parked directions of the WebSocket of c. A WebSocket
// with two parked directions becomes quiescent.
func (s *Set[C]) ChangeParkedDirections(c C, change int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	source, target := s.conns, s.conns
	if _, isQuiescent := s.quiescent[c]; isQuiescent {
		source = s.quiescent
	}
	parked, isOpen := source[c]
	if !isOpen {
		return
	}
	if parked += parkedDirections(change); parked == 2 {
		target = s.quiescent
	}
	delete(source, c)
	target[c] = parked
}

// AddAccepted counts an accepted connection, until the caller calls RemoveAccepted.
func (s *Set[C]) AddAccepted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted++
}

// RemoveAccepted is called when a connection that was counted by AddAccepted has ended.
func (s *Set[C]) RemoveAccepted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted--
	s.signalEmptyLocked()
}

// signalEmptyLocked closes the channels of s whose conditions are met. The caller must hold mu.
func (s *Set[C]) signalEmptyLocked() {
	if s.clientsClosed != nil && s.accepted == 0 {
		close(s.clientsClosed)
		s.clientsClosed = nil
	}
	if s.connsClosed != nil && s.unparkedLocked() == 0 && s.accepted == 0 {
		close(s.connsClosed)
		s.connsClosed = nil
	}
}

// run sweeps until stop is closed. It first waits until previousEnded is closed, so that only one
// goroutine sweeps.
func (s *Set[C]) run(previousEnded, stop <-chan struct{}, ended chan<- struct{}) {
	defer close(ended)
	if previousEnded != nil {
		<-previousEnded
	}
	ticker := time.NewTicker(SweepInterval)
	defer ticker.Stop()
	var list []C
	for round := 0; ; round++ {
		complete := round%quiescentEvery == 0
		select {
		case <-stop:
			return
		case <-ticker.C:
		case <-s.sweepRequested:
			complete = true
		}
		s.hooks.Tick()
		list = s.visitSome(list[:0], complete || s.hooks.MustSweepAll(), s.hooks.Sweep)
	}
}

// SweepSoon triggers an immediate sweep of all connections.
func (s *Set[C]) SweepSoon() {
	select {
	case s.sweepRequested <- struct{}{}:
	default: // a sweep is already due
	}
}

// Visit calls visit with all open connections that are not parked. It stores them in list, and
// returns the slice for reuse. visit must not keep a reference to a connection, because the
// connection may end after the visit and its memory may be reused. The exception is state that is
// safe for concurrent use and shows whether it still belongs to the same connection.
func (s *Set[C]) Visit(list []C, visit func(all []C)) []C {
	return s.visitSome(list, true, func(all []C, _ bool) { visit(all) })
}

// visitSome is like Visit, but may omit quiescent WebSockets unless complete is true. It reports to
// visit whether all connections are included.
func (s *Set[C]) visitSome(list []C, complete bool, visit func(all []C, complete bool)) []C {
	list, complete = s.beginVisit(list, complete)
	defer s.endVisit()
	visit(list, complete)
	clear(list)
	return list
}

// beginVisit starts a visit, and appends the open connections to list. It returns whether all of
// them are included.
func (s *Set[C]) beginVisit(list []C, complete bool) ([]C, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.visits++
	for c := range s.conns {
		list = append(list, c)
	}
	if complete {
		for c := range s.quiescent {
			list = append(list, c)
		}
	}
	return list, complete || len(s.quiescent) == 0
}

// endVisit ends a visit, and wakes callers of awaitNoVisitsLocked after the last visit.
func (s *Set[C]) endVisit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.visits--; s.visits == 0 && s.parked.noVisits != nil {
		close(s.parked.noVisits)
		s.parked.noVisits = nil
	}
}

// Each visits all open connections, and calls visit with each of them.
func (s *Set[C]) Each(visit func(c C)) {
	s.Visit(nil, func(all []C) {
		for _, c := range all {
			visit(c)
		}
	})
}

// Count returns the number of open connections, including parked ones.
func (s *Set[C]) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.openLocked()
}

// openLocked is like Count. The caller must hold mu.
func (s *Set[C]) openLocked() int { return s.unparkedLocked() + len(s.parked.conns) }

// unparkedLocked returns the number of connections that are not parked. The caller holds mu.
func (s *Set[C]) unparkedLocked() int { return len(s.conns) + len(s.quiescent) }

// AllClosed returns a channel that is closed when no connection is open.
func (s *Set[C]) AllClosed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unparkedLocked() == 0 && s.accepted == 0 {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	if s.connsClosed == nil {
		s.connsClosed = make(chan struct{})
	}
	return s.connsClosed
}

// AllClientsClosed returns a channel that is closed when no accepted client connection is open.
func (s *Set[C]) AllClientsClosed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clientsClosed == nil {
		s.clientsClosed = make(chan struct{})
	}
	closed := s.clientsClosed
	s.signalEmptyLocked()
	return closed
}
