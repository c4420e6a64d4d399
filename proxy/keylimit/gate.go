package keylimit

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"shardway/internal/linkedlist"
)

// Errors of a request that receives no place.
var (
	// ErrFull reports that the maximum number of requests of the key is running, and that the queue of
	// the key has no place.
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
//	        Join                        Leave of another request
//	request ────► place, or queue ──────────────────────────────► place
//	                          └── Await ends ──► outside
//
// Invariant: the number of places of a key never exceeds the limit of the request that received the
// last one. Requests that ran before the limit was switched on count as places; see EarlierRun.
type Gate struct {
	mu   sync.Mutex
	keys map[ID]*keyState // keys with places or waiters only
	// earlierRuns are requests without a place (EarlierRun), and earlier is their number by shard.
	earlierRuns []EarlierRun
	earlier     map[uint32]int

	hasEarlier atomic.Bool // earlierRuns is not empty
}

// keyState is the state of one key. Gate.mu protects all fields.
type keyState struct {
	running int // places in use
	waiters linkedlist.List[*Waiter]
}

// Waiter is a request that needs a place. The caller sets the exported fields before Join.
type Waiter struct {
	ID        ID
	Shard     uint32 // shard of the key; see Gate.Recheck
	Limit     int    // maximum number of requests of the key that run at the same time
	MaxQueued int    // how many requests of the key may wait; zero means none
	// HadTurn is set if the request had a place before, and is sent again. It precedes all others,
	// and may wait even if MaxQueued requests wait.
	HadTurn bool

	granted chan error // capacity 1; receives nil for a place

	// Gate.mu protects the following fields.
	element linkedlist.Element[*Waiter] // place in keyState.waiters
}

// Place is the permission to run a request. The zero value is no place.
type Place struct {
	gate *Gate
	id   ID
}

// IsTaken reports whether p is a place.
func (p *Place) IsTaken() bool { return p.gate != nil }

// Leave gives up the place, so that the next request of the key receives one. A second call has no
// effect.
func (p *Place) Leave() {
	if gate := p.gate; gate != nil {
		p.gate = nil
		gate.leave(p.id)
	}
}

// Join takes a place for waiter, or adds it to the queue of its key. If the result is neither a place nor
// an error, the caller must call Await.
func (g *Gate) Join(waiter *Waiter) (Place, error) {
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
		return Place{g, waiter.ID}, nil
	}
	mayWait := waiter.MaxQueued > 0 && (waiter.HadTurn || state.waiters.Len() < waiter.MaxQueued)
	if !mayWait && !g.waitsForEarlierLocked(waiter, state) {
		return Place{}, ErrFull
	}
	waiter.granted = make(chan error, 1)
	if first := state.waiters.First(); waiter.HadTurn && first != nil {
		state.waiters.InsertBefore(&first.element, &waiter.element, waiter)
	} else {
		state.waiters.PushBack(&waiter.element, waiter)
	}
	return Place{}, nil
}

// limitLocked returns the limit of a waiter without the places of earlier requests. g.mu must be held.
func (g *Gate) limitLocked(waiter *Waiter) int {
	return waiter.Limit - g.earlier[waiter.Shard]
}

// waitsForEarlierLocked reports whether a waiter may wait even without a queue: without the earlier
// requests, which probably belong to other keys, it would have a place. g.mu must be held.
func (g *Gate) waitsForEarlierLocked(waiter *Waiter, state *keyState) bool {
	return g.earlier[waiter.Shard] > 0 && state.running+state.waiters.Len() < waiter.Limit
}

// Await waits for the place of a waiter that Join has added to a queue. It returns an error after limit,
// when done is closed, or when the shard has moved.
func (g *Gate) Await(waiter *Waiter, done <-chan struct{}, limit time.Duration) (Place, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var reason error
	select {
	case err := <-waiter.granted:
		return g.placeOf(waiter, err)
	case <-timer.C:
		reason = ErrTimeout
	case <-done:
		reason = ErrCanceled
	}
	if g.withdraw(waiter) {
		return Place{}, reason
	}
	place, err := g.placeOf(waiter, <-waiter.granted) // does not block: the grant was sent with mu held
	if err == nil && errors.Is(reason, ErrCanceled) {
		place.Leave()
		err = reason
	}
	return place, err
}

// placeOf returns the place of a waiter that has received a grant, or its error.
func (g *Gate) placeOf(waiter *Waiter, err error) (Place, error) {
	if err != nil {
		return Place{}, err
	}
	return Place{g, waiter.ID}, nil
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
	if place, err := g.placeOf(waiter, <-waiter.granted); err == nil {
		place.Leave()
	}
}

// leave frees a place of the key, and gives it to the first waiter.
func (g *Gate) leave(id ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keys[id].running--
	g.grantLocked(id)
}

// grantLocked gives the free places of a key to the first waiters, and removes the state of a key without
// places and waiters. g.mu must be held.
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
