package queue

import (
	"errors"
	"sync/atomic"
	"time"
)

// Ticket is a request's place in a Queue. One goroutine waits on it; any may call
// Leave.
type Ticket struct {
	queue    *Queue
	shard    uint32
	bytes    int64
	deadline time.Time
	ready    chan struct{} // one message: taken out of its line, by the ramp or Leave
	left     atomic.Bool   // set under room.mu

	// Guarded by room.mu.
	list          *list     // the list it is in, if any
	prev, next    *Ticket   // in that list
	seen          uint64    // the generation it waits to be replaced
	cond          Condition // that it waits for besides, if any
	round         uint64    // of the ramp in which it was released; 0: it does not count
	lateCheckUsed bool      // had its look after the deadline
	outcome       error     // ErrTimeout, ErrCanceled
}

// Until has the time of the request end then, if that is earlier: it has waited before, with
// another ticket. Call it before the first Wait.
func (t *Ticket) LimitDeadline(deadline time.Time) {
	if deadline.Before(t.deadline) {
		t.deadline = deadline
	}
}

// Wait blocks until it is worth looking at the table again and then returns nil:
// when there is one of a generation above seen (at once, if it is there already),
// and after limit, if that is above zero, whether or not anything changed (the
// back-off after a refusal). Otherwise the error is ErrTimeout when the request
// has waited as long as it may, counted from Enter or by Until, or ErrCanceled when done was
// closed, or Leave called. A nil done never closes.
//
// A request whose time is over while a newer table is there, as one that the ramp
// has not reached, may look at it once more.
func (t *Ticket) Wait(done <-chan struct{}, seen uint64, limit time.Duration) error {
	return t.WaitFor(done, seen, limit, nil)
}

// WaitFor is Wait that also ends when WakeAll or WakeOne is called for the gate, and
// at once if that is passable already.
func (t *Ticket) WaitFor(done <-chan struct{}, seen uint64, limit time.Duration, cond Condition) error {
	q := t.queue
	left := time.Until(t.deadline)
	q.mu.Lock()
	q.pacer.requeued = q.pacer.requeued || t.round == q.pacer.round
	t.endTurnLocked()
	if t.left.Load() || isClosed(done) {
		t.outcome = ErrCanceled
		q.mu.Unlock()
		return ErrCanceled
	}
	if seen < q.generation || left <= 0 {
		defer q.mu.Unlock()
		return t.resultLocked(seen, left <= 0)
	}
	if cond != nil && cond.Ready() {
		q.mu.Unlock()
		return nil
	}
	t.seen, t.cond = seen, cond
	q.idle.push(t)
	q.mu.Unlock()

	timeout := left
	if limit > 0 {
		timeout = min(left, limit)
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-t.ready:
		if t.left.Load() {
			return ErrCanceled
		}
		return nil
	case <-done:
		return t.cancel()
	case <-timer.C:
		return t.onTimeout(timeout == left)
	}
}

// Dequeue gives the place back of a request that has found its owner. Until Leave it counts
// among those that the ramp has let go.
func (t *Ticket) Dequeue() {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	t.queue.pacer.dequeued = true
	t.leaveLocked()
}

// Leave gives the place back, if Dequeue has not, and ends a Wait under way. It may be called
// more than once. Call it when the owner has begun to answer, or cannot: until then the
// request counts among those that the ramp has let go.
func (t *Ticket) Leave() {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	t.leaveLocked()
	if t.round == t.queue.pacer.round {
		t.queue.pacer.finished++
	}
	t.endTurnLocked()
}

// leave gives the place back. With mu held.
func (t *Ticket) leaveLocked() {
	q := t.queue
	if t.left.Swap(true) {
		return
	}
	if t.list != nil {
		t.list.remove(t)
		t.ready <- struct{}{} // has room: see release
	}
	used := q.shards[t.shard]
	q.shards[t.shard] = usage{used.n - 1, used.bytes - t.bytes}
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

// rest ends the ticket's part in the ramp and lets the next one go. With mu held.
func (t *Ticket) endTurnLocked() {
	q := t.queue
	if t.round == q.pacer.round {
		q.pacer.outstanding--
		q.releaseLocked()
	}
	t.round = 0
}

// now decides without waiting: over says that the time of the request is. With
// mu held.
func (t *Ticket) resultLocked(seen uint64, expired bool) error {
	if seen < t.queue.generation && !t.lateCheckUsed {
		t.lateCheckUsed = expired
		return nil
	}
	t.outcome = ErrTimeout
	return ErrTimeout
}

// giveUp ends a Wait whose client has gone. If the ramp let the ticket go in the
// same moment, it is the next one's turn.
func (t *Ticket) cancel() error {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	t.unlinkLocked()
	t.endTurnLocked()
	t.outcome = ErrCanceled
	return ErrCanceled
}

// expire ends a Wait after its time: that of the back-off, or of the request.
func (t *Ticket) onTimeout(expired bool) error {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	released := t.unlinkLocked()
	switch {
	case t.left.Load():
		return ErrCanceled
	case released || !expired:
		return nil
	}
	return t.resultLocked(t.seen, true)
}

// stepOut takes the ticket out of its line, and reports whether somebody had
// already done so. With mu held.
func (t *Ticket) unlinkLocked() (released bool) {
	if t.list != nil {
		t.list.remove(t)
		return false
	}
	<-t.ready // sent under mu with the removal, so it is there
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
