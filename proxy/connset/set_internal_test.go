package connset

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// conn is an open connection that is not ending.
type conn struct{ _ byte }

func (*conn) IsEnding() bool { return false }

// swept is a Set that records each sweep.
type swept struct {
	Set[*conn]
	mu     sync.Mutex
	sweeps []sweepSeen
}

type sweepSeen struct {
	whole bool
	list  []*conn
}

func newSwept(whole func() bool) *swept {
	r := &swept{}
	r.Init(Hooks[*conn]{Tick: func() {}, MustSweepAll: whole, Sweep: func(list []*conn, whole bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sweeps = append(r.sweeps, sweepSeen{whole, slices.Clone(list)})
	}})
	return r
}

// take returns the sweeps since the last call. It waits for a sweep that is due at this instant.
func (r *swept) take() []sweepSeen {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.sweeps
	r.sweeps = nil
	return seen
}

func never() bool { return false }

// Idle WebSockets are part of every fifth sweep only, so thousands of them cost little. Operations on
// all connections still include them.
func TestQuiescentWebSocketsAreSweptRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSwept(never)
		busy, still := &conn{}, &conn{}
		r.Add(busy)
		r.Add(still)
		r.ChangeParkedDirections(still, 1)
		time.Sleep(10 * SweepInterval)
		sweeps := r.take()
		if len(sweeps) != 10 {
			t.Errorf("%d sweeps in 10 intervals", len(sweeps))
		}
		for _, s := range sweeps {
			if len(s.list) != 2 {
				t.Errorf("a sweep of %d, want both: one direction is not parked", len(s.list))
			}
		}
		r.ChangeParkedDirections(still, 1)
		time.Sleep(100 * SweepInterval)
		times := 0
		if sweeps = r.take(); len(sweeps) != 100 {
			t.Errorf("%d sweeps in 100 intervals", len(sweeps))
		}
		for _, s := range sweeps {
			found := slices.Contains(s.list, still)
			if found != s.whole || !slices.Contains(s.list, busy) {
				t.Errorf("whole: %v, and found: %v", s.whole, found)
			}
			if found {
				times++
			}
		}
		if times != 100/quiescentEvery {
			t.Errorf("looked at %d times in 100 sweeps, want each %dth", times, quiescentEvery)
		}
		var all []*conn
		r.Each(func(c *conn) { all = append(all, c) })
		if len(all) != 2 || r.Count() != 2 {
			t.Errorf("%d are visited of %d, want both", len(all), r.Count())
		}
		r.ChangeParkedDirections(still, -1)
		time.Sleep(10 * SweepInterval)
		if sweeps = r.take(); len(sweeps) != 10 {
			t.Errorf("%d sweeps in 10 intervals", len(sweeps))
		}
		for _, s := range sweeps {
			if len(s.list) != 2 {
				t.Errorf("a sweep of %d, want both: it is at rest no more", len(s.list))
			}
		}
		r.Remove(busy)
		r.Remove(still)
	})
}

// A new table starts a sweep of all idle WebSockets, and so does any event that needs one.
func TestQuiescentWebSocketsAreSweptOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asks atomic.Bool
		r := newSwept(asks.Load)
		still := &conn{}
		r.Add(still)
		r.ChangeParkedDirections(still, 2)
		time.Sleep(SweepInterval + SweepInterval/2)
		r.take()
		r.SweepSoon()
		if seen := r.take(); len(seen) != 1 || !seen[0].whole || len(seen[0].list) != 1 {
			t.Errorf("%v, want one sweep of all at once", seen)
		}
		asks.Store(true)
		time.Sleep(quiescentEvery * SweepInterval)
		sweeps := r.take()
		if len(sweeps) != quiescentEvery {
			t.Errorf("%d sweeps in %d intervals", len(sweeps), quiescentEvery)
		}
		for _, s := range sweeps {
			if !s.whole {
				t.Error("a sweep without those at rest")
			}
		}
		r.Remove(still)
	})
}

// An idle WebSocket that ends is removed, and is not added again when its directions are woken.
func TestQuiescentWebSocketThatEndsIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSwept(never)
		c := &conn{}
		r.Add(c)
		r.ChangeParkedDirections(c, 2)
		gone := r.AllClosed()
		select {
		case <-gone:
			t.Fatal("there is none, with one at rest")
		default:
		}
		r.Remove(c)
		<-gone
		r.ChangeParkedDirections(c, -1)
		r.ChangeParkedDirections(c, -1)
		if n := r.Count(); n != 0 {
			t.Errorf("%d are left, want none", n)
		}
	})
}
