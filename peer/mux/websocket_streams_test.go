package mux

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// Who may wait is given a lane by the trunk that is being laid, all of them by one; nobody waits
// for longer than he may, nor where nothing is being done.
func TestWhoWaitsIsGivenALaneByTheTrunkThatIsLaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &ends{t: t, serve: taking}
		const slow = 100 * time.Millisecond
		e.Set = NewSet(MaxLegs, func(ctx context.Context, place string) (net.Conn, error) {
			time.Sleep(slow)
			return e.dial(ctx, place)
		})
		defer e.Close()
		asks := func(within time.Duration) (l *Lane, took time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			began := time.Now()
			l = e.LaneSoon(ctx, "far")
			return l, time.Since(began)
		}
		const many = 2 * MaxLanes
		given := make(chan *Lane, many)
		for range many {
			go func() {
				l, _ := asks(time.Second)
				given <- l
			}()
		}
		synctest.Wait()
		if l, took := asks(slow / 2); l != nil || took != slow/2 {
			t.Errorf("a lane: %v, after %v, want none after %v", l != nil, took, slow/2)
		}
		for range many {
			if l := <-given; l == nil || l.Carrier() != e.way("far").trunk.conn {
				t.Fatal("one who waited is given no lane, or by another trunk")
			}
		}
		e.want("who waits", nil, false, 1)
		e.way("far").trunk.Fail(net.ErrClosed)
		synctest.Wait()
		if l, took := asks(time.Second); l != nil || took != 0 {
			t.Errorf("a lane: %v, after %v, where the place was dialed just now", l != nil, took)
		}
	})
}

// Of lanes that are many, many may be refused at once, and no trunk ends with that.
func TestManyLegsAreRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		given := 0
		r := newTrunk(near, NewBudget(MaxLegs, NewBudget(1, nil)), func(*Lane) bool { given++; return true })
		ended := make(chan error, 1)
		go func() { ended <- r.Run() }()
		var b []byte
		for i := range 4 * MaxLanes {
			b = appendFrame(b, kindOpen, uint32(i+1), nil)
		}
		_, _ = far.Write(b) // who reads nothing meanwhile
		synctest.Wait()
		if err := r.failed(); err != nil || given != 1 {
			t.Errorf("%d lanes are given, and the trunk ends with %v", given, err)
		}
		_ = far.Close()
		if err := <-ended; err == nil {
			t.Error("it ends without a reason")
		}
	})
}

// What the lanes of sockets have to say waits where much waits already, at either end: they are
// too many for their credit to bound it.
func TestWhatLegsHaveToSayIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe() // nobody reads
		r := newTrunk(near, NewBudget(MaxLegs, nil), nil)
		ended := make(chan error, 1)
		go func() { ended <- r.Run() }()
		const many = 4 * mostQueue / maxData
		for range many {
			l, err := r.Open()
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the first is being written, and all others wait behind it
			go func() { _, _ = l.Write(make([]byte, maxData)) }()
		}
		synctest.Wait()
		r.mu.Lock()
		waiting := len(r.out)
		r.mu.Unlock()
		if waiting > mostQueue+many*headLen+headLen {
			t.Errorf("%d bytes wait to be written, want %d at most", waiting, mostQueue)
		}
		_ = far.Close()
		if err := <-ended; err == nil {
			t.Error("it ends without a reason")
		}
		synctest.Wait()
	})
}
