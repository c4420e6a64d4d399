package keylimit

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Random requests with random limits, timeouts, cancellations and moves never exceed the limit of a key, and
// leave no state behind.
func TestGateNeverExceedsLimit(t *testing.T) {
	const keys, limit = 4, 2
	var gate Gate
	var running [keys]atomic.Int32
	var moving atomic.Bool
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 400 {
				key := rand.IntN(keys)
				waiter := &Waiter{ID: ID{uint64(key), 1}, Shard: uint32(key), Limit: limit, MaxQueued: 1 + rand.IntN(8), HadTurn: rand.IntN(8) == 0}
				permit, err := gate.Join(waiter)
				if err == nil && !permit.IsHeld() {
					switch done := make(chan struct{}); rand.IntN(4) {
					case 0:
						gate.Abandon(waiter)
						continue
					case 1:
						close(done)
						permit, err = gate.Await(waiter, done, time.Second)
					default:
						permit, err = gate.Await(waiter, nil, time.Duration(rand.IntN(500))*time.Microsecond)
					}
				}
				if err != nil {
					continue
				}
				if n := running[key].Add(1); n > limit {
					t.Errorf("%d requests of a key run, want up to %d", n, limit)
				}
				time.Sleep(time.Duration(rand.IntN(50)) * time.Microsecond)
				running[key].Add(-1)
				permit.Release()
				permit.Release() // has no effect
				if rand.IntN(16) == 0 && moving.CompareAndSwap(false, true) {
					gate.Recheck(func(shard uint32) bool { return shard == uint32(key) })
					moving.Store(false)
				}
			}
		})
	}
	all.Wait()
	if gate.Len() != 0 {
		t.Errorf("%d keys are left", gate.Len())
	}
}

// A waiter is granted its permit in order, and a request that had its turn precedes the others.
func TestGateGrantsPlacesInOrder(t *testing.T) {
	var gate Gate
	id := ID{1, 2}
	first, err := gate.Join(&Waiter{ID: id, Limit: 1})
	if err != nil || !first.IsHeld() {
		t.Fatalf("first: %v", err)
	}
	if _, err := gate.Join(&Waiter{ID: id, Limit: 1}); !errors.Is(err, ErrFull) {
		t.Errorf("without a queue: %v, want %v", err, ErrFull)
	}
	a, b, again := &Waiter{ID: id, Limit: 1, MaxQueued: 2}, &Waiter{ID: id, Limit: 1, MaxQueued: 2}, &Waiter{ID: id, Limit: 1, MaxQueued: 2, HadTurn: true}
	for _, waiter := range []*Waiter{a, b, again} {
		if permit, err := gate.Join(waiter); err != nil || permit.IsHeld() {
			t.Fatalf("Join = %v, %v, want to wait", permit, err)
		}
	}
	if _, err := gate.Join(&Waiter{ID: id, Limit: 1, MaxQueued: 2}); !errors.Is(err, ErrFull) {
		t.Errorf("beyond the queue: %v, want %v", err, ErrFull)
	}
	permit := first
	for i, waiter := range []*Waiter{again, a, b} {
		permit.Release()
		next, err := gate.Await(waiter, nil, 0)
		if err != nil || !next.IsHeld() {
			t.Fatalf("turn %d: %v", i, err)
		}
		permit = next
	}
	permit.Release()
	if gate.Len() != 0 {
		t.Errorf("%d keys are left", gate.Len())
	}
}

// A waiter that gives up at the moment of its turn gives its permit to the next one.
func TestAbandonedTurnGoesToNextWaiter(t *testing.T) {
	var gate Gate
	first, _ := gate.Join(&Waiter{ID: ID{1, 2}, Limit: 1})
	gone, next := &Waiter{ID: ID{1, 2}, Limit: 1, MaxQueued: 2}, &Waiter{ID: ID{1, 2}, Limit: 1, MaxQueued: 2}
	for _, waiter := range []*Waiter{gone, next} {
		if _, err := gate.Join(waiter); err != nil {
			t.Fatal(err)
		}
	}
	first.Release()
	gate.Abandon(gone)
	permit, err := gate.Await(next, nil, 0)
	if err != nil {
		t.Fatalf("the next waiter: %v", err)
	}
	permit.Release()
	if gate.Len() != 0 {
		t.Errorf("%d keys are left", gate.Len())
	}
}

// No request takes a permit while the earlier requests are being found, so that none of them is missed. A further
// request waits until the earlier one has ended.
func TestEnableBlocksJoins(t *testing.T) {
	var gate, other Gate
	hasEnded := false
	Enable([]*Gate{&gate, &other}, func() []PermitlessRun {
		if gate.mu.TryLock() || other.mu.TryLock() {
			t.Fatal("a request can join while the earlier requests are being found")
		}
		return []PermitlessRun{{Shard: 3, HasEnded: func() bool { return hasEnded }}}
	})
	waiter := &Waiter{ID: ID{1}, Shard: 3, Limit: 1, MaxQueued: 1}
	permit, err := gate.Join(waiter)
	for range 4 {
		gate.RemoveEndedRuns()
	}
	if err != nil || permit.IsHeld() || len(waiter.granted) > 0 {
		t.Fatalf("a request received a permit next to an earlier request: %v", err)
	}
	hasEnded = true
	gate.RemoveEndedRuns()
	gate.RemoveEndedRuns()
	if permit, err = gate.Await(waiter, nil, time.Minute); err != nil {
		t.Fatal(err)
	}
	permit.Release()
	if gate.RemoveEndedRuns(); gate.Len() != 0 || gate.permitlessCount != nil {
		t.Errorf("%d keys are left, and %v", gate.Len(), gate.permitlessCount)
	}
	if other.RemoveEndedRuns(); other.permitlessCount[3] != 1 {
		t.Errorf("the other gate counts %v, want that it counts for itself", other.permitlessCount)
	}
}
