package keylimit

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"shardway/internal/linkedlist"
)

// Errors of a request that receives no permit.
var (
	// ErrFull reports that the maximum number of requests of the key is running, and that the queue of
	// the key is full.
	ErrFull = errors.New("keylimit: too many requests of the key")
	// ErrTimeout reports that the turn of the request did not come in time.
	ErrTimeout = errors.New("keylimit: no turn in time")
	// ErrCanceled reports that the wait was canceled.
	ErrCanceled = errors.New("keylimit: canceled")
	// ErrMoved reports that the shard of the request has another owner now.
	ErrMoved = errors.New("keylimit: the shard has moved")
)

// Gate limits how many requests of a key run at the same time. The zero value is ready to use.
//
//	        Join                        Release by another request
//	request ────► permit, or queue ──────────────────────────────► permit
//	                          └── Await ends with an error ──► no permit
//
// Invariant: the number of permits of a key never exceeds the limit of the request that received the
// last one. Each PermitlessRun counts as one permit of every key of its shard.
type Gate struct {
	mu   sync.Mutex
	keys map[ID]*keyState // keys with permits or waiters only
	// permitlessRuns are the requests that run without a permit. permitlessCount is their number by shard.
	permitlessRuns  []PermitlessRun
	permitlessCount map[uint32]int

	hasPermitless atomic.Bool // permitlessRuns is not empty
}

// keyState is the state of one key. Gate.mu protects all fields.
type keyState struct {
	running int // permits in use
	waiters linkedlist.List[*Waiter]
}

// Waiter is a request that needs a permit. The caller sets the exported fields before Join.
type Waiter struct {
	ID        ID
	Shard     uint32 // shard of the key; see Gate.Recheck
	Limit     int    // maximum number of requests of the key that run at the same time
	MaxQueued int    // how many requests of the key may wait; zero means none
	// HadTurn is set if the request had a permit before, and is sent again. It precedes all others,
	// and may wait even if MaxQueued requests wait.
	HadTurn bool

	granted chan error // capacity 1; receives nil for a permit

	// Gate.mu protects the following fields.
	element linkedlist.Element[*Waiter] // position in keyState.waiters
}

// Permit is the permission to run a request of a key. The zero value is not a valid permit.
type Permit struct {
	gate *Gate
	id   ID
}

// IsHeld reports whether p is valid and has not been released.
func (p *Permit) IsHeld() bool { return p.gate != nil }

// Release gives up the permit, so that the next request of the key receives one. A second call has no
// effect.
func (p *Permit) Release() {
	if gate := p.gate; gate != nil {
		p.gate = nil
		gate.release(p.id)
	}
}

// Join takes a permit for waiter, or adds it to the queue of its key. If it returns neither a valid permit nor
// an error, the caller must call Await.
func (g *Gate) Join(waiter *Waiter) (Permit, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	state := g.keys[waiter.ID]
	if state == nil {
		if g.keys == nil {
			g.keys = make(map[ID]*keyState)
		}
		state = &keyState{}
		g.keys[waiter.ID] = state
	}
	mayPass := waiter.HadTurn || state.waiters.Len() == 0
	if mayPass && state.running < g.limitLocked(waiter) {
		state.running++
		return Permit{g, waiter.ID}, nil
	}
	mayWait := waiter.MaxQueued > 0 && (waiter.HadTurn || state.waiters.Len() < waiter.MaxQueued)
	if !mayWait && !g.waitsForPermitlessLocked(waiter, state) {
		return Permit{}, ErrFull
	}
	waiter.granted = make(chan error, 1)
	if first := state.waiters.First(); waiter.HadTurn && first != nil {
		state.waiters.InsertBefore(&first.element, &waiter.element, waiter)
	} else {
		state.waiters.PushBack(&waiter.element, waiter)
	}
	return Permit{}, nil
}

// limitLocked returns the limit of a waiter, reduced by the requests that run without a permit. g.mu must be held.
func (g *Gate) limitLocked(waiter *Waiter) int {
	return waiter.Limit - g.permitlessCount[waiter.Shard]
}

// waitsForPermitlessLocked reports whether a waiter may wait even without a queue. It may if it would have a
// permit without the permitless runs, which probably belong to other keys. g.mu must be held.
func (g *Gate) waitsForPermitlessLocked(waiter *Waiter, state *keyState) bool {
	return g.permitlessCount[waiter.Shard] > 0 && state.running+state.waiters.Len() < waiter.Limit
}

// Await waits for the permit of a waiter that Join has added to a queue. It returns an error after limit,
// when done is closed, or when the shard has moved.
func (g *Gate) Await(waiter *Waiter, done <-chan struct{}, limit time.Duration) (Permit, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var reason error
	select {
	case err := <-waiter.granted:
		return g.permitOf(waiter, err)
	case <-timer.C:
		reason = ErrTimeout
	case <-done:
		reason = ErrCanceled
	}
	if g.withdraw(waiter) {
		return Permit{}, reason
	}
	permit, err := g.permitOf(waiter, <-waiter.granted) // does not block: the grant was sent with mu held
	if err == nil && errors.Is(reason, ErrCanceled) {
		permit.Release()
		err = reason
	}
	return permit, err
}

// permitOf returns the permit of a waiter that has received a grant, or its error.
func (g *Gate) permitOf(waiter *Waiter, err error) (Permit, error) {
	if err != nil {
		return Permit{}, err
	}
	return Permit{g, waiter.ID}, nil
}

// withdraw removes the waiter from its queue. It returns false if the waiter has received a grant.
func (g *Gate) withdraw(waiter *Waiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !waiter.element.InList() {
		return false
	}
	waiter.element.Remove()
	g.grantLocked(waiter.ID)
	return true
}

// Abandon ends the wait of a waiter that Join has added to a queue, instead of Await.
func (g *Gate) Abandon(waiter *Waiter) {
	if g.withdraw(waiter) {
		return
	}
	if permit, err := g.permitOf(waiter, <-waiter.granted); err == nil {
		permit.Release()
	}
}

// release takes back a permit of the key, and gives it to the first waiter.
func (g *Gate) release(id ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keys[id].running--
	g.grantLocked(id)
}

// grantLocked gives the free permits of a key to the first waiters, and removes the state of a key without
// permits and waiters. g.mu must be held.
func (g *Gate) grantLocked(id ID) {
	state := g.keys[id]
	for waiter := state.waiters.First(); waiter != nil && state.running < g.limitLocked(waiter); waiter = state.waiters.First() {
		waiter.element.Remove()
		state.running++
		waiter.granted <- nil // does not block, because the channel has a buffer for the only grant
	}
	if state.running == 0 && state.waiters.Len() == 0 {
		delete(g.keys, id)
	}
}

// Recheck removes the waiters for whose shard moved returns true: their Await returns ErrMoved. The
// caller must have installed the new routing table before. A waiter must check the table again after
// Join, so that either the waiter or Recheck notices a concurrent change.
func (g *Gate) Recheck(moved func(shard uint32) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, state := range g.keys {
		for waiter := range state.waiters.All() {
			if moved(waiter.Shard) {
				waiter.element.Remove()
				waiter.granted <- ErrMoved
			}
		}
		g.grantLocked(id)
	}
}

// Len returns the number of keys with requests that run or wait.
func (g *Gate) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.keys)
}
