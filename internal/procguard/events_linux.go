package procguard

import (
	"encoding/json"
	"io"
	"sync"
)

// maxQueuedOutput is the maximum number of output lines that wait for the node. Further lines are dropped.
const maxQueuedOutput = 1024

// eventQueue writes events without blocking the guard, because a frozen node does not read them.
type eventQueue struct {
	out io.WriteCloser

	mu      sync.Mutex
	changed *sync.Cond
	// mu protects the following fields.
	queue  []guardEvent
	output int    // number of eventOutput in queue
	lost   uint64 // number of lines dropped since the last queued one
}

// newEventQueue returns an eventQueue that writes to out.
func newEventQueue(out io.WriteCloser) *eventQueue {
	q := &eventQueue{out: out}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// send adds an event. The number of such events is bounded by the number of commands.
func (q *eventQueue) send(event guardEvent) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, event)
	q.changed.Signal()
}

// sendOutput adds a line of output, or drops it if too many wait.
func (q *eventQueue) sendOutput(event guardEvent) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.output >= maxQueuedOutput {
		q.lost++
		return
	}
	event.Lost, q.lost = q.lost, 0
	q.output++
	q.queue = append(q.queue, event)
	q.changed.Signal()
}

// next waits for the next event.
func (q *eventQueue) next() guardEvent {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.queue) == 0 {
		q.changed.Wait()
	}
	event := q.queue[0]
	q.queue = q.queue[1:]
	if event.Kind == eventOutput {
		q.output--
	}
	return event
}

// run writes events until the node stops reading them.
func (q *eventQueue) run() {
	encoder := json.NewEncoder(q.out)
	for {
		event := q.next()
		if err := encoder.Encode(&event); err != nil {
			_ = q.out.Close() // the children must end because the command pipe is closed, not because of this
			return
		}
	}
}
