package proxy

import "shardway/queue"

// rooms contains the queues of a Server in the order of their priority: requests, event streams
// without an upstream connection, and WebSockets without a relay.
type rooms [3]*queue.Queue

// Rouse wakes all entries of the queues that wait for gate.
func (r *rooms) Rouse(gate queue.Condition) {
	for _, room := range r {
		room.WakeAll(gate)
	}
}

// RouseOne wakes one entry that waits for gate. A request precedes event streams and WebSockets. It
// reports whether there was such an entry.
func (r *rooms) RouseOne(gate queue.Condition) bool {
	for _, room := range r {
		if room.WakeOne(gate) {
			return true
		}
	}
	return false
}
