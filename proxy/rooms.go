package proxy

import "shardway/queue"

// rooms are where those wait whom a gate lets through: requests, and the event
// streams and sockets that are without a connection to their app.
type rooms [3]*queue.Room

// Rouse makes everybody due who waits at the gate.
func (r *rooms) Rouse(gate queue.Gate) {
	for _, room := range r {
		room.Rouse(gate)
	}
}

// RouseOne lets one go who waits at the gate, a request if there is one, and reports
// whether there was one.
func (r *rooms) RouseOne(gate queue.Gate) bool {
	for _, room := range r {
		if room.RouseOne(gate) {
			return true
		}
	}
	return false
}
