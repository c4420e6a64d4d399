package queue

import (
	"errors"
	"sync/atomic"
	"time"

	"shardway/internal/linkedlist"
)

// Ticket is the slot of one request in a Queue. Only one goroutine may wait on it; any goroutine
// may call Leave.
type Ticket struct {
	queue    *Queue
	shard    uint32
	bytes    int64         // size of the request
	deadline time.Time     // end of the total waiting time of the request
	ready    chan struct{} // capacity 1; receives when the ticket is removed from its list by another goroutine
	hasLeft  atomic.Bool   // the slot is free; set with queue.mu held

	// queue.mu protects the following fields.
	element        linkedlist.Element[*Ticket] // place in Queue.idleTickets or pacer.dueTickets
	seenGeneration uint64                      // generation that the caller of Wait has checked
	cond           Condition                   // condition that the ticket also waits for, or nil
	releaseRound   uint64                      // round of the pacer in which the ticket is outstanding, or 0
	lateCheckUsed  bool                        // the one check after the deadline has been granted
	outcome        error                       // ErrTimeout, ErrCanceled or nil
}

// LimitDeadline moves the deadline of the request forward to the given time, if that is earlier.
// Use it for a request that has already waited with another ticket, before the first Wait.
func (t *Ticket) LimitDeadline(deadline time.Time) {
	if deadline.Before(t.deadline) {
		t.deadline = deadline
	}
}

// Wait blocks until the request should check the routing table again, and then returns nil:
//
//   - when a table with a generation above seenGeneration is available, possibly at once;
//   - after limit, if that is above zero, whether or not the table changed. A caller uses it as
//     back-off after a refusal.
//
// Otherwise Wait returns ErrTimeout at the deadline of the request, or ErrCanceled when done is
// closed or Leave is called. A nil done is never closed.
//
// A request that reaches its deadline while a newer table is available, because the pacer has not
// released it yet, may check that table once more.
func (t *Ticket) Wait(done <-chan struct{}, seenGeneration uint64, limit time.Duration) error {
	return t.WaitFor(done, seenGeneration, limit, nil)
}

// WaitFor is like Wait, but also returns nil when WakeAll or WakeOne is called for cond, and at
// once if cond is ready. A nil cond is ignored.
func (t *Ticket) WaitFor(done <-chan struct{}, seenGeneration uint64, limit time.Duration, cond Condition) error {
	remaining := time.Until(t.deadline)
	if mustWait, err := t.beginWait(done, seenGeneration, remaining, cond); !mustWait {
		return err
	}
	timeout := remaining
	if limit > 0 {
		timeout = min(remaining, limit)
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-t.ready:
		if t.hasLeft.Load() {
			return ErrCanceled
		}
		return nil
	case <-done:
		return t.cancel()
	case <-timer.C:
		return t.onTimeout(timeout == remaining)
	}
}

// beginWait ends the release of the ticket, and adds the ticket to the idle ones. If the result of the
// wait is already known, it returns false and that result. If that result is nil, the ticket stays
// outstanding. remaining is the time until the deadline of the request. The other parameters are those
// of WaitFor.
func (t *Ticket) beginWait(done <-chan struct{}, seenGeneration uint64, remaining time.Duration, cond Condition) (mustWait bool, result error) {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	mustWait, result = t.mustWaitLocked(done, seenGeneration, remaining, cond)
	if !mustWait && result == nil {
		return false, nil
	}
	if wasOutstanding := t.releaseRound == q.pacer.round; wasOutstanding {
		q.pacer.anyRequeued = true
	}
	t.endReleaseLocked()
	if mustWait {
		t.seenGeneration, t.cond = seenGeneration, cond
		q.idleTickets.PushBack(&t.element, t)
	}
	return mustWait, result
}

// mustWaitLocked reports whether the ticket must wait. Otherwise result is the result of the wait. The
// parameters are those of beginWait. q.mu must be held.
func (t *Ticket) mustWaitLocked(done <-chan struct{}, seenGeneration uint64, remaining time.Duration, cond Condition) (mustWait bool, result error) {
	if t.hasLeft.Load() || isClosed(done) {
		t.outcome = ErrCanceled
		return false, ErrCanceled
	}
	expired := remaining <= 0
	if expired || seenGeneration < t.queue.generation {
		return false, t.waitResultLocked(seenGeneration, expired)
	}
	isReady := cond != nil && cond.Ready()
	return !isReady, nil
}

// Dequeue frees the slot of a request that has found its owner. The ticket still counts as
// outstanding in the pacer until Leave.
func (t *Ticket) Dequeue() {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	t.queue.pacer.anyDequeued = true
	t.leaveLocked()
}

// Leave frees the slot, if Dequeue has not done so, and ends a Wait in progress. Call it when the
// response has started or the request has failed: until then the ticket counts as outstanding in
// the pacer. Leave may be called more than once.
func (t *Ticket) Leave() {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	t.leaveLocked()
	if t.releaseRound == t.queue.pacer.round {
		t.queue.pacer.finished++
	}
	t.endReleaseLocked()
}

// leaveLocked frees the slot. queue.mu must be held.
func (t *Ticket) leaveLocked() {
	q := t.queue
	if t.hasLeft.Swap(true) {
		return
	}
	if t.element.InList() {
		t.element.Remove()
		t.ready <- struct{}{} // never blocks: the channel of a ticket in a list is empty
	}
	used := q.shards[t.shard]
	q.shards[t.shard] = usage{used.requests - 1, used.bytes - t.bytes}
	q.stats.Waiting--
	q.stats.Bytes -= t.bytes
	switch {
	case errors.Is(t.outcome, ErrTimeout):
		q.stats.TimedOut++
	case errors.Is(t.outcome, ErrCanceled):
		q.stats.Canceled++
	default:
		q.stats.Dequeued++
	}
}

// endReleaseLocked removes the ticket from the outstanding ones, and releases the next due ticket.
// queue.mu must be held.
func (t *Ticket) endReleaseLocked() {
	q := t.queue
	if t.releaseRound == q.pacer.round {
		q.pacer.outstanding--
		q.releaseLocked()
	}
	t.releaseRound = 0
}

// waitResultLocked returns the result of a Wait without blocking. expired reports that the deadline
// of the request has passed. In that case the request may check a newer table only once. q.mu must
// be held.
func (t *Ticket) waitResultLocked(seenGeneration uint64, expired bool) error {
	if seenGeneration < t.queue.generation && !t.lateCheckUsed {
		t.lateCheckUsed = expired
		return nil
	}
	t.outcome = ErrTimeout
	return ErrTimeout
}

// cancel ends a Wait whose client has disconnected. If the pacer released the ticket at the same
// moment, cancel releases the next one.
func (t *Ticket) cancel() error {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	t.unlinkLocked()
	t.endReleaseLocked()
	t.outcome = ErrCanceled
	return ErrCanceled
}

// onTimeout ends a Wait after its timer has fired. expired is true if that was the deadline of the
// request, and false if it was the back-off.
func (t *Ticket) onTimeout(expired bool) error {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	released := t.unlinkLocked()
	switch {
	case t.hasLeft.Load():
		return ErrCanceled
	case released || !expired:
		return nil
	}
	return t.waitResultLocked(t.seenGeneration, true)
}

// unlinkLocked removes the ticket from its list. It returns true if the ticket had already been
// removed, by the pacer, WakeOne or Leave. queue.mu must be held.
func (t *Ticket) unlinkLocked() (released bool) {
	if t.element.InList() {
		t.element.Remove()
		return false
	}
	<-t.ready // never blocks: sent with mu held, together with the removal
	return true
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
