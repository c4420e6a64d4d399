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
		var all []*Session
		before := heap()
		for range trunks {
			_, far := net.Pipe()
			tr := NewServer(far, NewBudget(MaxStreams, nil), func(*Stream) bool { return true })
			all = append(all, tr)
			runs.Go(func() { _ = tr.Run() })
		}
		if each := (heap() - before) / trunks; each > most {
			t.Errorf("a silent trunk holds %d bytes of heap, want %d at most", each, most)
		}
		time.Sleep(firstFrameTimeout + time.Millisecond)
		synctest.Wait()
		for _, tr := range all {
			if err := tr.failure(); !errors.Is(err, errIdle) {
				t.Fatalf("it goes on: %v", err)
			}
		}
		runs.Wait()
	})
}

// A trunk by which nothing has come for a minute takes no more lanes: its dialer ends it with the
// last, or leaves it without lanes to be ended.
func TestATrunkThatIsNotUsedEnds(t *testing.T) {
	withSessionPair(t, func(near, far *Session, given chan *Stream) {
		st, _ := near.OpenStream()
		synctest.Wait()
		at := <-given
		for range 100 { // it is used
			time.Sleep(idleTimeout / 2)
			near.Ping()
			synctest.Wait()
		}
		if !near.CanOpen() {
			t.Fatal("it ends while it is used")
		}
		time.Sleep(idleTimeout)
		synctest.Wait()
		if near.CanOpen() || !st.Quiet() {
			t.Errorf("it takes lanes after %v: %v; the one there is goes on: %v", idleTimeout, near.CanOpen(), st.Quiet())
		}
		time.Sleep(10 * dialerCloseTimeout)
		synctest.Wait()
		if err := errors.Join(near.failure(), far.failure()); err != nil {
			t.Errorf("a trunk with a lane ends: %v", err)
		}
		_ = at.Close()
		_ = st.Close()
		synctest.Wait()
		if near.failure() == nil || far.failure() == nil {
			t.Error("it goes on without a lane")
		}
	})
	withRawPeer(t, true, func(r *rawPeer) {
		r.startReading()
		r.send(framePing, 0, nil)
		time.Sleep(idleTimeout + dialerCloseTimeout + time.Millisecond)
		if n, _ := r.sent(frameGoAway); n != 1 || !errors.Is(r.runErr, errIdle) {
			t.Errorf("%d last words; it ends with %v where its dialer does not leave", n, r.runErr)
		}
	})
}

// A trunk that takes no more lanes, and whose dialer leaves it when its last lane has gone, ends
// some time after that: it was judged before, and is again.
func TestATrunkThatIsLeftWithItsLastLaneEnds(t *testing.T) {
	withRawPeer(t, true, func(r *rawPeer) {
		r.startReading()
		r.send(frameOpen, 1, nil)
		st := <-r.accepted
		time.Sleep(idleTimeout + 2*dialerCloseTimeout)
		if n, _ := r.sent(frameGoAway); n != 1 || r.failure() != nil {
			t.Fatalf("%d last words; with a lane it ends with %v", n, r.failure())
		}
		r.send(frameClose, st.id, nil)
		_ = st.Close()
		time.Sleep(dialerCloseTimeout - time.Millisecond)
		if err := r.failure(); err != nil {
			t.Errorf("it ends with %v before its dialer has had time to end it", err)
		}
		time.Sleep(2 * time.Millisecond)
		if synctest.Wait(); !errors.Is(r.runErr, errIdle) {
			t.Errorf("Run = %v where its dialer does not end it, want %v", r.runErr, errIdle)
		}
	})
}
