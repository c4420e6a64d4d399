package proxy

import (
	"errors"
	"net"
	"sync"

	"shardway/internal/rawio"
)

// roost watches the sockets of idle legs. A leg whose ends say nothing has no goroutine: what
// one would keep, its stack above all, is more than all else that an idle socket takes. One
// goroutine for all of them hears from the kernel who has something to say (Linux; elsewhere
// none is watched).
//
// A leg is woken by its h1.Conn, once, whoever has a reason: the kernel, as a read would not
// wait; who closes the connection, or stops its reads to ask the leg for something. Nobody has
// to know whether a leg is parked.
type roost struct {
	mu      sync.Mutex
	lookout *rawio.Poller // nil: nothing has been watched yet
	ended   chan struct{} // closed when its goroutine has ended
	over    bool          // nothing is watched any more
	birds   map[uint64]func()
	last    uint64                        // number that was given; no two have the same
	fresh   func() (*rawio.Poller, error) // rawio.NewPoller, but for tests; nil: that
}

var errRoostOver = errors.New("proxy: no leg is parked any more")

// Watch implements h1.Watcher.
func (r *roost) Watch(conn net.Conn, ready func()) (leave func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return nil, errRoostOver
	}
	if r.lookout == nil {
		fresh := rawio.NewPoller
		if r.fresh != nil {
			fresh = r.fresh
		}
		lookout, failed := fresh()
		if failed != nil {
			return nil, failed // who has none now is not parked, and the next one may be
		}
		r.lookout, r.birds, r.ended = lookout, make(map[uint64]func()), make(chan struct{})
		go r.run() // until close
	}
	r.last++
	id := r.last
	if err = r.lookout.Add(conn, id); err != nil {
		return nil, err
	}
	r.birds[id] = ready
	return func() { r.leave(conn, id) }, nil
}

func (r *roost) leave(conn net.Conn, id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.birds, id)
	_ = r.lookout.Remove(conn) // an error means that nobody watches it any more
}

// run tells of the sockets that have something to say, until close.
func (r *roost) run() {
	defer close(r.ended)
	for heard := []rawio.Event(nil); ; {
		var err error
		if heard, err = r.lookout.Wait(heard[:0]); err != nil {
			break
		}
		for _, f := range r.take(heard) {
			f()
		}
	}
	r.mu.Lock()
	r.over = true
	var all []func() // none, unless that was no close
	for _, f := range r.birds {
		all = append(all, f)
	}
	clear(r.birds)
	r.mu.Unlock()
	for _, f := range all {
		f()
	}
}

// take takes out those heard of that are watched still.
func (r *roost) take(heard []rawio.Event) (ready []func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range heard {
		if f := r.birds[h.ID]; f != nil {
			delete(r.birds, h.ID)
			ready = append(ready, f)
		}
	}
	return ready
}

// close ends the watch, of no leg any more.
func (r *roost) close() {
	r.mu.Lock()
	lookout, ended := r.lookout, r.ended
	r.over = true
	r.mu.Unlock()
	if lookout != nil && ended != nil {
		_ = lookout.Close()
		<-ended
	}
}
