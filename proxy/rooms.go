package proxy

import "shardway/queue"

// rooms are where those wait whom a gate lets through: requests, and the event
// streams and sockets that are without a connection to their app.
type rooms [3]*queue.Queue

// Rouse makes everybody due who waits at the gate.
func (r *rooms) Rouse(gate queue.Condition) {
	for _, room := range r {
		room.WakeAll(gate)
	}
}

// RouseOne lets one go who waits at the gate, a request if there is one, and reports
// whether there was one.
func (r *rooms) RouseOne(gate queue.Condition) bool {
	for _, room := range r {
		if room.WakeOne(gate) {
			return true
		}
	}
	return false
}
