package wsession

import (
	"sync"
	"time"
)

// HandoverDelay is how long an owner waits after its shard has moved for the ingress to request the
// hand-over. After that, the owner starts the hand-over itself.
const HandoverDelay = time.Second

const (
	// firstHandovers is the number of hand-overs in the first step, and in each step while this
	// node is overloaded. Otherwise the number doubles from step to step, up to mostHandovers.
	firstHandovers = 16
	mostHandovers  = 64
	// handoversEvery is the time between two steps.
	handoversEvery = time.Millisecond
	// handoversWithin is the time limit for requesting all queued hand-overs. A moving shard waits
	// for the last of them.
	handoversWithin = HandoverDelay * 3 / 4
)

// HandoverPacer spreads the hand-overs of WebSocket relays whose shards move over several steps.
// Each hand-over wakes goroutines in three processes. When thousands of relays were woken together,
// all other requests were delayed by 200 ms. Therefore each step requests a limited number of
// hand-overs, and other requests run between the steps.
type HandoverPacer struct {
	// MeasureDelay returns how late a step runs, like TimerDelay. It must be set before the first call
	// of Enqueue.
	MeasureDelay func(due time.Time) time.Duration

	mu        sync.Mutex
	queue     []func()  // requests of hand-overs, in order
	n         int       // maximum number of hand-overs in the next step
	began     time.Time // when the first relay was added to the empty queue
	scheduled bool      // a step is scheduled. One more step follows after the queue has become empty, so that a relay that arrives soon after does not start a new series
}

// Enqueue adds a relay to the queue, and schedules the first step if none is scheduled. request
// requests the hand-over of the relay, and must not block.
func (h *HandoverPacer) Enqueue(request func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queue) == 0 {
		h.began, h.n = time.Now(), firstHandovers
	}
	h.queue = append(h.queue, request)
	if !h.scheduled {
		h.scheduled = true
		h.schedule(h.began)
	}
}

// schedule schedules a step at due. After the step it schedules the next one, until nextStep reports
// that none is needed.
func (h *HandoverPacer) schedule(due time.Time) {
	time.AfterFunc(time.Until(due), func() {
		now := due.Add(h.MeasureDelay(due))
		batch, more := h.nextStep(now.Sub(due), now)
		for _, request := range batch {
			request()
		}
		if more {
			h.schedule(now.Add(handoversEvery))
		}
	})
}

// nextStep removes the relays of the next step from the queue and returns them. late is the delay of
// the present step; a large delay means that the node is overloaded. more reports whether another
// step must follow. A step exceeds its maximum if the queue would otherwise not be empty within
// handoversWithin.
func (h *HandoverPacer) nextStep(late time.Duration, now time.Time) (batch []func(), more bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.scheduled = len(h.queue) > 0
	if h.n = min(2*h.n, mostHandovers); late > lateThreshold {
		h.n = firstHandovers
	}
	all, step := len(h.queue), handoversEvery+late
	left := max(handoversWithin-now.Sub(h.began), step)
	n := min(max(h.n, int(int64(all)*int64(step)/int64(left))), all)
	batch = h.queue[:n:n]
	if h.queue = h.queue[n:]; n == all {
		h.queue = nil
	}
	return batch, h.scheduled
}
