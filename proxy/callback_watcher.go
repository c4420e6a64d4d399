package proxy

import (
	"errors"
	"net"
	"sync"

	"shardway/internal/rawio"
)

// callbackWatcher watches the sockets of idle legs. A leg whose ends say nothing has no goroutine: what
// one would keep, its stack above all, is more than all else that an idle socket takes. One
// goroutine for all of them hears from the kernel who has something to say (Linux; elsewhere
// none is watched).
//
// A leg is woken by its h1.Conn, once, whoever has a reason: the kernel, as a read would not
// wait; who closes the connection, or stops its reads to ask the leg for something. Nobody has
// to know whether a leg is parked.
type callbackWatcher struct {
	mu        sync.Mutex
	poller    *rawio.Poller // nil: nothing has been watched yet
	ended     chan struct{} // closed when its goroutine has ended
	over      bool          // nothing is watched any more
	callbacks map[uint64]func()
	lastID    uint64                        // number that was given; no two have the same
	newPoller func() (*rawio.Poller, error) // rawio.NewPoller, but for tests; nil: that
}

var errCallbackWatcherClosed = errors.New("proxy: no leg is parked any more")

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
			return nil, failed // who has none now is not parked, and the next one may be
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
	_ = r.poller.Remove(conn) // an error means that nobody watches it any more
}

// run tells of the sockets that have something to say, until close.
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
	var all []func() // none, unless that was no close
	for _, f := range r.callbacks {
		all = append(all, f)
	}
	clear(r.callbacks)
	r.mu.Unlock()
	for _, f := range all {
		f()
	}
}

// take takes out those heard of that are watched still.
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

// close ends the watch, of no leg any more.
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
