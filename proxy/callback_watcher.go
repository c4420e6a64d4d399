package proxy

import (
	"errors"
	"net"
	"sync"

	"shardway/internal/rawio"
)

// callbackWatcher watches the sockets of idle WebSockets. An idle relay has no goroutine, because
// the stack of a goroutine takes more memory than the rest of the WebSocket. One goroutine waits
// in epoll for all sockets, and calls the function of each socket that becomes readable. On
// systems other than Linux, no socket is watched.
//
// h1.Conn wakes a relay once, for any of these reasons: the kernel reports that a read would not
// block, or another goroutine closes the connection, or stops its reads in order to send a
// request to the relay. No caller needs to know whether a relay is parked.
type callbackWatcher struct {
	mu        sync.Mutex
	poller    *rawio.Poller // nil means that no socket has been watched yet
	ended     chan struct{} // closed when the goroutine has ended
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
		fresh := rawio.NewPoller
		if r.newPoller != nil {
			fresh = r.newPoller
		}
		lookout, failed := fresh()
		if failed != nil {
			return nil, failed // this relay is not parked; a later one may be
		}
		r.poller, r.callbacks, r.ended = lookout, make(map[uint64]func()), make(chan struct{})
		go r.run() // until close
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
	_ = r.poller.Remove(conn) // an error means that it is not watched
}

// run calls the functions of the sockets that become readable, until close.
func (r *callbackWatcher) run() {
	defer close(r.ended)
	for heard := []rawio.Event(nil); ; {
		var err error
		if heard, err = r.poller.Wait(heard[:0]); err != nil {
			break
		}
		for _, f := range r.take(heard) {
			f()
		}
	}
	r.mu.Lock()
	r.over = true
	var all []func() // after close there are none; after a poller error these continue
	for _, f := range r.callbacks {
		all = append(all, f)
	}
	clear(r.callbacks)
	r.mu.Unlock()
	for _, f := range all {
		f()
	}
}

// take removes and returns the functions of the sockets in heard that are still watched.
func (r *callbackWatcher) take(heard []rawio.Event) (ready []func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range heard {
		if f := r.callbacks[h.ID]; f != nil {
			delete(r.callbacks, h.ID)
			ready = append(ready, f)
		}
	}
	return ready
}

// close ends the watcher. No relay may be parked any more.
func (r *callbackWatcher) close() {
	r.mu.Lock()
	lookout, ended := r.poller, r.ended
	r.over = true
	r.mu.Unlock()
	if lookout != nil && ended != nil {
		_ = lookout.Close()
		<-ended
	}
}
