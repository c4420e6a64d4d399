package proxy

import (
	"sync"
	"sync/atomic"

	"shardway/proxy/h1"
)

// States of a watch.
const (
	watchOff     uint32 = iota // the connection's goroutine reads, or may
	watchArmed                 // nobody reads: the sweep may begin to watch
	watchRunning               // h1 watches
)

// disconnectWatch looks out for a client that leaves while its request runs or waits. It
// costs a goroutine and two switches, so for what runs it is begun by the sweep,
// for what has run for a while only.
type disconnectWatch struct {
	conn *h1.Conn
	left func()

	state atomic.Uint32
	// mu is held while the watch begins.
	mu sync.Mutex
}

func (w *disconnectWatch) init(h *h1.Conn, left func()) { w.conn, w.left = h, left }

// arm allows the sweep to watch: nobody reads the connection until disarm.
func (w *disconnectWatch) arm() { w.state.Store(watchArmed) }

// start begins to watch an armed connection.
func (w *disconnectWatch) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state.CompareAndSwap(watchArmed, watchRunning) {
		w.conn.WatchGone(w.left)
	}
}

// disarm gives the reading half back to the connection's goroutine, which calls
// it.
func (w *disconnectWatch) disarm() {
	if w.state.Load() == watchOff || w.state.CompareAndSwap(watchArmed, watchOff) {
		return
	}
	w.mu.Lock()   // until the watch has begun
	w.mu.Unlock() //nolint:staticcheck // nothing to do but wait
	w.conn.StopWatch()
	w.state.Store(watchOff)
}
