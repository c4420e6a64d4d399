package listener

import (
	"net"
	"sync"
	"sync/atomic"
)

// Set contains the listeners of a server. Any goroutine may use it. The zero value is ready.
type Set struct {
	stopping atomic.Bool // set with mu held; afterwards no listener is added

	// mu protects the following fields.
	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	closed    chan struct{} // see Closed; nil means that no caller needs it
}

// Add adds a listener. It returns false after Stop, unless the listener was added before.
func (s *Set) Add(ln net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, added := s.listeners[ln]; added || s.stopping.Load() {
		return added
	}
	if s.listeners == nil {
		s.listeners = make(map[net.Listener]struct{})
	}
	s.listeners[ln] = struct{}{}
	return true
}

// Remove closes a listener and removes it.
func (s *Set) Remove(ln net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, ln)
	_ = ln.Close()
	s.signalClosedLocked()
}

// Stop stops all listeners (see the function Stop). The accepting goroutines call Remove after they
// have accepted the connections in the backlogs. A second call has no effect.
func (s *Set) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping.Swap(true) {
		return
	}
	for ln := range s.listeners {
		Stop(ln)
	}
	s.signalClosedLocked()
}

// IsStopping reports whether Stop was called.
func (s *Set) IsStopping() bool { return s.stopping.Load() }

// Closed returns a channel that is closed when Stop was called and all listeners have been removed.
func (s *Set) Closed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closedLocked()
}

// closedLocked is like Closed. The caller must hold mu.
func (s *Set) closedLocked() chan struct{} {
	if s.closed == nil {
		s.closed = make(chan struct{})
	}
	return s.closed
}

// signalClosedLocked closes the channel of Closed if no listener is left after Stop. The caller must
// hold mu.
func (s *Set) signalClosedLocked() {
	if !s.stopping.Load() || len(s.listeners) > 0 {
		return
	}
	select {
	case <-s.closedLocked(): // already closed
	default:
		close(s.closed)
	}
}
