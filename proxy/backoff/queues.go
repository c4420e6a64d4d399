package backoff

import "shardway/queue"

// Queues contains the queues of a Server in the order of their priority: requests, event streams
// without an upstream connection, and WebSockets without a relay.
type Queues [3]*queue.Queue

// WakeAll wakes all entries of the queues that wait for c.
func (qs *Queues) WakeAll(c queue.Condition) {
	for _, q := range qs {
		q.WakeAll(c)
	}
}

// WakeOne wakes one entry that waits for c. A request precedes event streams and WebSockets. It
// reports whether there was such an entry.
func (qs *Queues) WakeOne(c queue.Condition) bool {
	for _, q := range qs {
		if q.WakeOne(c) {
			return true
		}
	}
	return false
}

// Condition is a condition that requests wait for. It counts its waiting requests.
type Condition interface {
	queue.Condition
	// AddWaiting adds n, which is 1 or -1, to the number of waiting requests.
	AddWaiting(n int)
}
