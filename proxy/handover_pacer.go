package proxy

import (
	"sync"
	"time"
)

const (
	// firstHandovers is how many hand-overs are requested in one step at first, and while this
	// node is overloaded. mostHandovers is the maximum otherwise.
	firstHandovers = 16
	mostHandovers  = 64
	// handoversEvery is the time between two steps.
	handoversEvery = time.Millisecond
	// handoversWithin is the time within which all hand-overs are requested, because the moving
	// shards wait for the last one.
	handoversWithin = moveAfter * 3 / 4
)

// handoverPacer paces the hand-overs of relays whose shards move. Each hand-over wakes goroutines of
// three processes. When thousands were woken at once, all requests waited for a fifth of a second.
// Therefore a few are requested at a time, and requests run between the steps.
type handoverPacer struct {
	late func(due time.Time) time.Duration // as reconnectPacer.measureDelay

	mu     sync.Mutex
	queue  []*webSocketRelay // relays that wait, in order
	n      int               // size of a step
	began  time.Time         // when the first of the queue was added
	asking bool              // a step is scheduled; that includes one step after the queue is empty, so that a relay that arrives then waits for it
}

// ask queues a relay for its hand-over.
func (h *handoverPacer) ask(l *webSocketRelay) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queue) == 0 {
		h.began, h.n = time.Now(), firstHandovers
	}
	h.queue = append(h.queue, l)
	if !h.asking {
		h.asking = true
		h.goOn(h.began)
	}
}

// goOn schedules a step at due, and further ones while needed.
func (h *handoverPacer) goOn(due time.Time) {
	time.AfterFunc(time.Until(due), func() {
		now := due.Add(h.late(due))
		turn, more := h.take(now.Sub(due), now)
		for _, l := range turn {
			l.request(requestMove)
		}
		if more {
			h.goOn(now.Add(handoversEvery))
		}
	})
}

// take removes and returns the relays of the next step, and reports whether another step must
// follow.
func (h *handoverPacer) take(late time.Duration, now time.Time) (turn []*webSocketRelay, more bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asking = len(h.queue) > 0
	if h.n = min(2*h.n, mostHandovers); late > lateThreshold {
		h.n = firstHandovers
	}
	all, step := len(h.queue), handoversEvery+late
	left := max(handoversWithin-now.Sub(h.began), step)
	n := min(max(h.n, int(int64(all)*int64(step)/int64(left))), all)
	turn = h.queue[:n:n]
	if h.queue = h.queue[n:]; n == all {
		h.queue = nil
	}
	return turn, h.asking
}
