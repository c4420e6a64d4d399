package queue

import (
	"errors"
	"sync/atomic"
	"time"
)

// Ticket is a request's place in a Room. One goroutine waits on it; any may call
// Leave.
type Ticket struct {
	room     *Room
	shard    uint32
	bytes    int64
	deadline time.Time
	ready    chan struct{} // one message: taken out of its line, by the ramp or Leave
	left     atomic.Bool   // set under room.mu

	// Guarded by room.mu.
	in         *line   // the line it is in, if any
	prev, next *Ticket // in that line
	seen       uint64  // the generation it waits to be replaced
	gate       Gate    // that it waits for besides, if any
	round      uint64  // of the ramp in which it was released; 0: it does not count
	overtime   bool    // had its look after the deadline
	outcome    error   // ErrTimeout, ErrGone
}

// Until has the time of the request end then, if that is earlier: it has waited before, with
// another ticket. Call it before the first Wait.
func (t *Ticket) Until(deadline time.Time) {
	if deadline.Before(t.deadline) {
		t.deadline = deadline
	}
}

// Wait blocks until it is worth looking at the table again and then returns nil:
// when there is one of a generation above seen (at once, if it is there already),
// and after limit, if that is above zero, whether or not anything changed (the
// back-off after a refusal). Otherwise the error is ErrTimeout when the request
// has waited as long as it may, counted from Enter or by Until, or ErrGone when done was
// closed, or Leave called. A nil done never closes.
//
// A request whose time is over while a newer table is there, as one that the ramp
// has not reached, may look at it once more.
func (t *Ticket) Wait(done <-chan struct{}, seen uint64, limit time.Duration) error {
	return t.WaitAt(done, seen, limit, nil)
}

// WaitAt is Wait that also ends when Rouse or RouseOne is called for the gate, and
// at once if that is passable already.
func (t *Ticket) WaitAt(done <-chan struct{}, seen uint64, limit time.Duration, gate Gate) error {
	r := t.room
	left := time.Until(t.deadline)
	r.mu.Lock()
	r.ramp.vain = r.ramp.vain || t.round == r.ramp.round
	t.rest()
	if t.left.Load() || closed(done) {
		t.outcome = ErrGone
		r.mu.Unlock()
		return ErrGone
	}
	if seen < r.generation || left <= 0 {
		defer r.mu.Unlock()
		return t.now(seen, left <= 0)
	}
	if gate != nil && gate.Passable() {
		r.mu.Unlock()
		return nil
	}
	t.seen, t.gate = seen, gate
	r.idle.push(t)
	r.mu.Unlock()

	pause := left
	if limit > 0 {
		pause = min(left, limit)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-t.ready:
		if t.left.Load() {
			return ErrGone
		}
		return nil
	case <-done:
		return t.giveUp()
	case <-timer.C:
		return t.expire(pause == left)
	}
}

// GoOn gives the place back of a request that has found its owner. Until Leave it counts
// among those that the ramp has let go.
func (t *Ticket) GoOn() {
	t.room.mu.Lock()
	defer t.room.mu.Unlock()
	t.room.ramp.went = true
	t.leave()
}

// Leave gives the place back, if GoOn has not, and ends a Wait under way. It may be called
// more than once. Call it when the owner has begun to answer, or cannot: until then the
// request counts among those that the ramp has let go.
func (t *Ticket) Leave() {
	t.room.mu.Lock()
	defer t.room.mu.Unlock()
	t.leave()
	if t.round == t.room.ramp.round {
		t.room.ramp.back++
	}
	t.rest()
}

// leave gives the place back. With mu held.
func (t *Ticket) leave() {
	r := t.room
	if t.left.Swap(true) {
		return
	}
	if t.in != nil {
		t.in.remove(t)
		t.ready <- struct{}{} // has room: see release
	}
	own := r.shards[t.shard]
	r.shards[t.shard] = holding{own.n - 1, own.bytes - t.bytes}
	r.stats.Waiting--
	r.stats.Bytes -= t.bytes
	switch {
	case errors.Is(t.outcome, ErrTimeout):
		r.stats.TimedOut++
	case errors.Is(t.outcome, ErrGone):
		r.stats.Gone++
	default:
		r.stats.WentOn++
	}
}

// rest ends the ticket's part in the ramp and lets the next one go. With mu held.
func (t *Ticket) rest() {
	r := t.room
	if t.round == r.ramp.round {
		r.ramp.away--
		r.release()
	}
	t.round = 0
}

// now decides without waiting: over says that the time of the request is. With
// mu held.
func (t *Ticket) now(seen uint64, over bool) error {
	if seen < t.room.generation && !t.overtime {
		t.overtime = over
		return nil
	}
	t.outcome = ErrTimeout
	return ErrTimeout
}

// giveUp ends a Wait whose client has gone. If the ramp let the ticket go in the
// same moment, it is the next one's turn.
func (t *Ticket) giveUp() error {
	t.room.mu.Lock()
	defer t.room.mu.Unlock()
	t.stepOut()
	t.rest()
	t.outcome = ErrGone
	return ErrGone
}

// expire ends a Wait after its time: that of the back-off, or of the request.
func (t *Ticket) expire(over bool) error {
	t.room.mu.Lock()
	defer t.room.mu.Unlock()
	released := t.stepOut()
	switch {
	case t.left.Load():
		return ErrGone
	case released || !over:
		return nil
	}
	return t.now(t.seen, true)
}

// stepOut takes the ticket out of its line, and reports whether somebody had
// already done so. With mu held.
func (t *Ticket) stepOut() (released bool) {
	if t.in != nil {
		t.in.remove(t)
		return false
	}
	<-t.ready // sent under mu with the removal, so it is there
	return true
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
