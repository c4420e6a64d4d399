package connpool

// dialCounts counts and limits the dials of a pool. Pool.mu protects all fields.
type dialCounts struct {
	inProgress     int    // dials in progress, including the stuck ones (slowStart.stuck)
	openingStreams int    // those of inProgress that first try to open a stream for a WebSocket
	succeeded      uint64 // successful dials so far
	slowStart      slowStart
}

// active returns the number of dials in progress that are not stuck.
func (counts *dialCounts) active() int { return counts.inProgress - counts.slowStart.stuck }

// isFull reports whether no further dial may start. maxActive is the limit of active dials.
func (counts *dialCounts) isFull(maxActive int) bool {
	active := counts.active()
	return active >= maxActive || counts.slowStart.isFull(active)
}

// recordStart counts d as in progress.
func (counts *dialCounts) recordStart(d *dial) {
	counts.inProgress++
	if d.opensStream {
		counts.openingStreams++
	}
}

// recordEnd reverses recordStart. The caller must offer the new connection of d to the waiters before it
// releases Pool.mu: a waiter without a dial in progress causes another dial.
func (counts *dialCounts) recordEnd(d *dial) {
	counts.inProgress--
	if d.opensStream {
		counts.openingStreams--
	}
	d.endWatch()
}

// nextOpensStream reports whether the next dial should first try to open a stream for a WebSocket. It should if the
// dials in progress already suffice for all requests waiting in queue.
func (counts *dialCounts) nextOpensStream(queue *waitQueue) bool {
	webSocket := queue.firstUpgrade // nil in the pool of an app
	if webSocket == nil || !webSocket.StreamAllowed {
		return false
	}
	waitingRequests := queue.waiters.Len() - queue.upgrades
	dialsForRequests := counts.inProgress - counts.openingStreams
	return waitingRequests <= dialsForRequests
}
