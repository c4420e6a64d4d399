package wsession

import (
	"sync"
	"time"
)

// HandoverDelay is how long an owner waits, after its shard has moved, for the ingress to request
// the hand-over before it starts the hand-over itself.
const HandoverDelay = time.Second

const (
	// minStepHandovers is the number of hand-overs in the first step, and in each step while this
	// node is overloaded. Otherwise the number doubles at each step, up to maxStepHandovers.
	minStepHandovers = 16
	maxStepHandovers = 64
	// handoverInterval is the time from one step to the next.
	handoverInterval = time.Millisecond
	// handoverTimeLimit is the time limit for requesting all queued hand-overs. A moving shard waits
	// for the last of them.
	handoverTimeLimit = HandoverDelay * 3 / 4
)

// HandoverPacer spreads the hand-overs of WebSocket relays whose shards move over several steps.
// Each hand-over wakes goroutines in three processes, and waking thousands of relays together would
// delay all other requests by 200 ms. Each step therefore requests a limited number of hand-overs,
// and other requests run between the steps.
type HandoverPacer struct {
	// MeasureDelay returns how late a step runs; see TimerDelay. It must be set before the first
	// call of Enqueue.
	MeasureDelay func(due time.Time) time.Duration

	mu        sync.Mutex
	requests  []func()  // requests of hand-overs, in order
	stepLimit int       // maximum number of hand-overs in the next step
	startedAt time.Time // when the first relay was added to the empty queue
	// scheduled is set if a step is scheduled. One more step follows after the queue has become
	// empty, so that a relay that arrives soon afterward does not start a new series.
	scheduled bool
}

// Enqueue adds a relay to the queue, and schedules the first step if none is scheduled. request
// requests the hand-over of the relay, and must not block.
func (p *HandoverPacer) Enqueue(request func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.requests) == 0 {
		p.startedAt, p.stepLimit = time.Now(), minStepHandovers
	}
	p.requests = append(p.requests, request)
	if !p.scheduled {
		p.scheduled = true
		p.schedule(p.startedAt)
	}
}

// schedule schedules a step at due. After the step it schedules the next one, until nextStep reports
// that none is needed.
func (p *HandoverPacer) schedule(due time.Time) {
	time.AfterFunc(time.Until(due), func() {
		now := due.Add(p.MeasureDelay(due))
		batch, more := p.nextStep(now.Sub(due), now)
		for _, request := range batch {
			request()
		}
		if more {
			p.schedule(now.Add(handoverInterval))
		}
	})
}

// nextStep removes the relays of the next step from the queue and returns them. delay is the delay
// of the current step; a large delay means that the node is overloaded. more reports whether
// another step must follow. A step exceeds stepLimit if the queue would otherwise not empty within
// handoverTimeLimit.
func (p *HandoverPacer) nextStep(delay time.Duration, now time.Time) (batch []func(), more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scheduled = len(p.requests) > 0
	if p.stepLimit = min(2*p.stepLimit, maxStepHandovers); delay > lateThreshold {
		p.stepLimit = minStepHandovers
	}
	queued, stepTime := len(p.requests), handoverInterval+delay
	timeLeft := max(handoverTimeLimit-now.Sub(p.startedAt), stepTime)
	batchSize := min(max(p.stepLimit, int(int64(queued)*int64(stepTime)/int64(timeLeft))), queued)
	batch = p.requests[:batchSize:batchSize]
	if p.requests = p.requests[batchSize:]; batchSize == queued {
		p.requests = nil
	}
	return batch, p.scheduled
}
