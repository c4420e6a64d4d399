package proxy

import (
	"errors"
	"net"
	"sync"

	"shardway/internal/rawio"
)

// callbackWatcher watches the sockets of idle WebSockets. An idle relay has no goroutine, because
// the stack of a goroutine would need more memory than the rest of the WebSocket. One goroutine
// waits in epoll for all sockets, and calls the function of each socket that becomes readable. On
// systems other than Linux, no socket is watched.
//
// h1.Conn wakes a relay once, for any of these reasons: the kernel reports that a read would not
// block, another goroutine closes the connection, or another goroutine interrupts its reads to send
// a request to the relay. So other goroutines do not need to know whether a relay is parked.
type callbackWatcher struct {
	mu        sync.Mutex
	poller    *rawio.Poller // nil means that no socket has been watched yet
	ended     chan struct{} // closed when the goroutine has exited
	over      bool          // no socket can be watched any more
	callbacks map[uint64]func()
	lastID    uint64                        // last poller id; ids are never reused
	newPoller func() (*rawio.Poller, error) // replaces rawio.NewPoller in tests; nil means rawio.NewPoller
}

var errCallbackWatcherClosed = errors.New("proxy: callback watcher closed")

// Watch implements h1.Watcher.
func (r *callbackWatcher) Watch(conn net.Conn, ready func()) (leave func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return nil, errCallbackWatcherClosed
	}
	if r.poller == nil {
		newPoller := rawio.NewPoller
		if r.newPoller != nil {
			newPoller = r.newPoller
		}
		poller, failed := newPoller()
		if failed != nil {
			return nil, failed // this relay is not parked; a later attempt may succeed
		}
		r.poller, r.callbacks, r.ended = poller, make(map[uint64]func()), make(chan struct{})
		go r.run() // exits after close
	}
	r.lastID++
	id := r.lastID
	if err = r.poller.Add(conn, id); err != nil {
		return nil, err
	}
	r.callbacks[id] = ready
	return func() { r.leave(conn, id) }, nil
}

func (r *callbackWatcher) leave(conn net.Conn, id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.callbacks, id)
	_ = r.poller.Remove(conn) // an error means that the poller does not watch it
}

// run calls the functions of the sockets that become readable. It returns after close.
func (r *callbackWatcher) run() {
	defer close(r.ended)
	for events := []rawio.Event(nil); ; {
		var err error
		if events, err = r.poller.Wait(events[:0]); err != nil {
			break
		}
		for _, f := range r.take(events) {
			f()
		}
	}
	r.mu.Lock()
	r.over = true
	var all []func() // empty after close; after an error of the poller, the remaining relays are woken
	for _, f := range r.callbacks {
		all = append(all, f)
	}
	clear(r.callbacks)
	r.mu.Unlock()
	for _, f := range all {
		f()
	}
}

// take removes and returns the functions of the sockets in events that are still being watched.
func (r *callbackWatcher) take(events []rawio.Event) (ready []func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range events {
		if f := r.callbacks[e.ID]; f != nil {
			delete(r.callbacks, e.ID)
			ready = append(ready, f)
		}
	}
	return ready
}

// close stops the watcher. After it, no relay can be parked.
func (r *callbackWatcher) close() {
	r.mu.Lock()
	poller, ended := r.poller, r.ended
	r.over = true
	r.mu.Unlock()
	if poller != nil && ended != nil {
		_ = poller.Close()
		<-ended
	}
}
