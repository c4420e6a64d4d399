package backoff

import "shardway/queue"

// Queues contains the queues of a Server in the order of their priority: requests, event streams
// without an upstream connection, and WebSockets without a relay.
type Queues [3]*queue.Queue

// WakeAll wakes all queue entries that wait for condition.
func (qs *Queues) WakeAll(condition queue.Condition) {
	for _, queue := range qs {
		queue.WakeAll(condition)
	}
}

// WakeOne wakes one queue entry that waits for condition, in the priority order of the queues. It
// reports whether there was such an entry.
func (qs *Queues) WakeOne(condition queue.Condition) bool {
	for _, queue := range qs {
		if queue.WakeOne(condition) {
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
