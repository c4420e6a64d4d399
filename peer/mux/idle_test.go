package mux

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A trunk on which nothing is ever said holds little, and that not for long.
func TestATrunkThatSaysNothingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trunks, most = 256, 8 << 10
		heap := func() uint64 {
			synctest.Wait()
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		var runs sync.WaitGroup
		var all []*Trunk
		before := heap()
		for range trunks {
			_, far := net.Pipe()
			tr := Accepted(far, NewBudget(MaxLanes, nil), func(*Lane) bool { return true })
			all = append(all, tr)
			runs.Go(func() { _ = tr.Run() })
		}
		if each := (heap() - before) / trunks; each > most {
			t.Errorf("a silent trunk holds %d bytes of heap, want %d at most", each, most)
		}
		time.Sleep(firstWithin + time.Millisecond)
		synctest.Wait()
		for _, tr := range all {
			if err := tr.failed(); !errors.Is(err, errIdle) {
				t.Fatalf("it goes on: %v", err)
			}
		}
		runs.Wait()
	})
}

// A trunk by which nothing has come for a minute takes no more lanes: its dialer ends it with the
// last, or leaves it without lanes to be ended.
func TestATrunkThatIsNotUsedEnds(t *testing.T) {
	between(t, func(near, far *Trunk, given chan *Lane) {
		l, _ := near.Open()
		synctest.Wait()
		at := <-given
		for range 100 { // it is used
			time.Sleep(idleFor / 2)
			near.Ping()
			synctest.Wait()
		}
		if !near.Works() {
			t.Fatal("it ends while it is used")
		}
		time.Sleep(idleFor)
		synctest.Wait()
		if near.Works() || !l.Quiet() {
			t.Errorf("it takes lanes after %v: %v; the one there is goes on: %v", idleFor, near.Works(), l.Quiet())
		}
		time.Sleep(10 * leaveWithin)
		synctest.Wait()
		if err := errors.Join(near.failed(), far.failed()); err != nil {
			t.Errorf("a trunk with a lane ends: %v", err)
		}
		_ = at.Close()
		_ = l.Close()
		synctest.Wait()
		if near.failed() == nil || far.failed() == nil {
			t.Error("it goes on without a lane")
		}
	})
	withRaw(t, true, func(r *raw) {
		r.hears()
		r.says(kindPing, 0, nil)
		time.Sleep(idleFor + leaveWithin + time.Millisecond)
		if n, _ := r.sent(kindLast); n != 1 || !errors.Is(r.ended, errIdle) {
			t.Errorf("%d last words; it ends with %v where its dialer does not leave", n, r.ended)
		}
	})
}

// A trunk that takes no more lanes, and whose dialer leaves it when its last lane has gone, ends
// some time after that: it was judged before, and is again.
func TestATrunkThatIsLeftWithItsLastLaneEnds(t *testing.T) {
	withRaw(t, true, func(r *raw) {
		r.hears()
		r.says(kindOpen, 1, nil)
		l := <-r.given
		time.Sleep(idleFor + 2*leaveWithin)
		if n, _ := r.sent(kindLast); n != 1 || r.failed() != nil {
			t.Fatalf("%d last words; with a lane it ends with %v", n, r.failed())
		}
		r.says(kindClose, l.id, nil)
		_ = l.Close()
		time.Sleep(leaveWithin - time.Millisecond)
		if err := r.failed(); err != nil {
			t.Errorf("it ends with %v before its dialer has had time to end it", err)
		}
		time.Sleep(2 * time.Millisecond)
		if synctest.Wait(); !errors.Is(r.ended, errIdle) {
			t.Errorf("Run = %v where its dialer does not end it, want %v", r.ended, errIdle)
		}
	})
}
