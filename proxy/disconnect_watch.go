package proxy

import (
	"sync"
	"sync/atomic"

	"shardway/proxy/h1"
)

// States of a disconnectWatch.
const (
	watchOff     uint32 = iota // the goroutine of the connection may read
	watchArmed                 // no goroutine reads, so the sweep may start the watch
	watchRunning               // h1.Conn.WatchDisconnect is active
)

// disconnectWatch detects that a client disconnects while its request runs or waits. A watch costs
// a goroutine and two context switches. Therefore the sweep starts it only for requests that have
// run for a while.
type disconnectWatch struct {
	conn *h1.Conn
	left func()

	state atomic.Uint32
	// mu is held while the watch starts.
	mu sync.Mutex
}

func (w *disconnectWatch) init(h *h1.Conn, left func()) { w.conn, w.left = h, left }

// arm allows the sweep to start the watch. The caller must not read from the connection until
// disarm.
func (w *disconnectWatch) arm() { w.state.Store(watchArmed) }

// start starts the watch if it is armed.
func (w *disconnectWatch) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state.CompareAndSwap(watchArmed, watchRunning) {
		w.conn.WatchDisconnect(w.left)
	}
}

// disarm ends the watch. The goroutine of the connection calls it before it reads again.
func (w *disconnectWatch) disarm() {
	if w.state.Load() == watchOff || w.state.CompareAndSwap(watchArmed, watchOff) {
		return
	}
	w.mu.Lock()   // wait until the watch has started
	w.mu.Unlock() //nolint:staticcheck // nothing to do but wait
	w.conn.StopWatch()
	w.state.Store(watchOff)
}
