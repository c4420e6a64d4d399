package netpoll

import (
	"errors"
	"net"
	"sync"

	"shardway/internal/rawio"
)

// Watcher calls a function for each watched connection that becomes readable. The zero value is
// ready to use. The first call of Watch starts its goroutine.
type Watcher struct {
	// NewPoller replaces rawio.NewPoller in tests; nil means rawio.NewPoller. It must be set before
	// the first call of Watch.
	NewPoller func() (*rawio.Poller, error)

	// mu protects the following fields.
	mu        sync.Mutex
	poller    *rawio.Poller // nil means that no connection has been watched yet
	ended     chan struct{} // closed when the goroutine has exited
	closed    bool          // no further connection can be watched
	callbacks map[uint64]func()
	lastID    uint64 // last poller id; ids are never reused, so that a late event matches no other connection
}

// ErrClosed reports that a Watcher was closed or has failed. It is permanent.
var ErrClosed = errors.New("netpoll: watcher closed")

// Watch calls ready once, as soon as conn has data, an end of stream or an error, or when the
// Watcher fails. ready is called on the Watcher's goroutine, so it must not block for long. It may
// be called before Watch returns. The caller must call cancel before it reads from conn or closes
// it. ready may still be called after cancel has returned if the event arrived before.
func (w *Watcher) Watch(conn net.Conn, ready func()) (cancel func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, ErrClosed
	}
	if w.poller == nil {
		newPoller := rawio.NewPoller
		if w.NewPoller != nil {
			newPoller = w.NewPoller
		}
		poller, pollerErr := newPoller()
		if pollerErr != nil {
			return nil, pollerErr // a later call may succeed
		}
		w.poller, w.callbacks, w.ended = poller, make(map[uint64]func()), make(chan struct{})
		go w.run() // exits after Close
	}
	w.lastID++
	id := w.lastID
	if err = w.poller.Add(conn, id); err != nil {
		return nil, err
	}
	w.callbacks[id] = ready
	return func() { w.cancel(conn, id) }, nil
}

func (w *Watcher) cancel(conn net.Conn, id uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.callbacks, id)
	_ = w.poller.Remove(conn) // an error means that the poller does not watch it
}

// run calls the functions of the connections that become readable. It returns after Close, or after
// an error of the poller.
func (w *Watcher) run() {
	defer close(w.ended)
	for events := []rawio.Event(nil); ; {
		var err error
		if events, err = w.poller.Wait(events[:0]); err != nil {
			break
		}
		for _, callback := range w.takeReady(events) {
			callback()
		}
	}
	for _, callback := range w.takeAll() { // after Close, the callers have cancelled all of them
		callback()
	}
}

// takeReady removes and returns the functions of the given events. Events of connections that are
// no longer watched are ignored.
func (w *Watcher) takeReady(events []rawio.Event) (ready []func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, event := range events {
		if callback := w.callbacks[event.ID]; callback != nil {
			delete(w.callbacks, event.ID)
			ready = append(ready, callback)
		}
	}
	return ready
}

// takeAll closes the Watcher, and removes and returns the remaining functions.
func (w *Watcher) takeAll() (all []func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, callback := range w.callbacks {
		all = append(all, callback)
	}
	clear(w.callbacks)
	return all
}

// Close stops the Watcher. No connection can be watched afterward.
func (w *Watcher) Close() {
	w.mu.Lock()
	poller := w.poller
	w.closed = true
	w.mu.Unlock()
	if poller != nil {
		_ = poller.Close()
		<-w.ended
	}
}
