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
	conn         *h1.Conn
	onDisconnect func() // called in another goroutine when the client has disconnected

	state atomic.Uint32 // watchOff, watchArmed or watchRunning
	mu    sync.Mutex    // held while the watch starts
}

// init sets the connection of the client, and the function that is called when the client has
// disconnected.
func (watch *disconnectWatch) init(conn *h1.Conn, onDisconnect func()) {
	watch.conn, watch.onDisconnect = conn, onDisconnect
}

// arm allows the sweep to start the watch. The caller must not read from the connection until
// disarm.
func (watch *disconnectWatch) arm() { watch.state.Store(watchArmed) }

// start starts the watch if it is armed.
func (watch *disconnectWatch) start() {
	watch.mu.Lock()
	defer watch.mu.Unlock()
	if watch.state.CompareAndSwap(watchArmed, watchRunning) {
		watch.conn.WatchDisconnect(watch.onDisconnect)
	}
}

// disarm ends the watch. The goroutine of the connection calls it before it reads again.
func (watch *disconnectWatch) disarm() {
	if watch.state.Load() == watchOff || watch.state.CompareAndSwap(watchArmed, watchOff) {
		return
	}
	watch.mu.Lock()   // wait until the watch has started
	watch.mu.Unlock() //nolint:staticcheck // nothing to do but wait
	watch.conn.StopWatch()
	watch.state.Store(watchOff)
}
