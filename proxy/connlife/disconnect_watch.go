package connlife

import (
	"sync"
	"sync/atomic"

	"shardway/proxy/inbound"
)

// States of a DisconnectWatch.
const (
	watchOff     uint32 = iota // the connection's goroutine may read
	watchArmed                 // no goroutine reads, so the sweep may start the watch
	watchRunning               // inbound.Watchable.WatchDisconnect is active
)

// DisconnectWatch detects that a client disconnects while its request runs or waits. A watch costs
// a goroutine and two context switches. Therefore the sweep starts it only for requests that have
// run for a while.
type DisconnectWatch struct {
	client       inbound.Watchable
	onDisconnect func()

	state atomic.Uint32
	// mu is held while Start starts the watch, so that Disarm can wait for that.
	mu sync.Mutex
}

// Init sets the client, and the function that is called in another goroutine when the client has
// closed its sending side.
func (watch *DisconnectWatch) Init(client inbound.Watchable, onDisconnect func()) {
	watch.client, watch.onDisconnect = client, onDisconnect
}

// Arm lets the periodic sweep call Start. The caller must not read from the connection until Disarm
// returns.
func (watch *DisconnectWatch) Arm() { watch.state.Store(watchArmed) }

// IsOff reports whether the watch is neither armed nor running.
func (watch *DisconnectWatch) IsOff() bool { return watch.state.Load() == watchOff }

// Start starts the watch if it is armed.
func (watch *DisconnectWatch) Start() {
	watch.mu.Lock()
	defer watch.mu.Unlock()
	if watch.state.CompareAndSwap(watchArmed, watchRunning) {
		watch.client.WatchDisconnect(watch.onDisconnect)
	}
}

// Disarm ends the watch. The connection's goroutine calls it before it reads again.
func (watch *DisconnectWatch) Disarm() {
	if watch.state.Load() == watchOff || watch.state.CompareAndSwap(watchArmed, watchOff) {
		return
	}
	watch.mu.Lock()   // wait until Start has called WatchDisconnect
	watch.mu.Unlock() //nolint:staticcheck // nothing to do but wait
	watch.client.StopWatch()
	watch.state.Store(watchOff)
}
