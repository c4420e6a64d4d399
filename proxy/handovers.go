package proxy

import (
	"sync"
	"time"
)

const (
	// firstHandovers is how many legs are asked to hand over at once at first, and of a node
	// that is late; mostHandovers of one that is not.
	firstHandovers = 16
	mostHandovers  = 64
	// handoversEvery is how often so many are.
	handoversEvery = time.Millisecond
	// handoversWithin is within how long all are: the shards that move wait for the last.
	handoversWithin = moveAfter * 3 / 4
)

// handovers has the legs of clients hand over whose shards move. Each wakes goroutines of
// three processes, and thousands that were woken at once stood in front of every request for
// a fifth of a second. So they are asked few at a time, and behind those the requests.
type handovers struct {
	late func(due time.Time) time.Duration // how late it is; tempo's

	mu     sync.Mutex
	queue  []*webSocketRelay // to be asked, the first one first
	n      int               // how many at once
	began  time.Time         // when the first of them was put in
	asking bool              // somebody comes for them: also a turn after the last, so that who comes then waits for his
}

// ask has a leg hand over, soon.
func (h *handovers) ask(l *webSocketRelay) {
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

// goOn asks the next ones at due, and so on.
func (h *handovers) goOn(due time.Time) {
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

// take takes out those whose turn it is, and reports whether there is to be another turn.
func (h *handovers) take(late time.Duration, now time.Time) (turn []*webSocketRelay, more bool) {
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
