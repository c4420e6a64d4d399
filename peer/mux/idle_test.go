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

// A session that never receives a frame uses little memory, and is closed after firstFrameTimeout.
func TestSilentSessionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sessions, most = 256, 8 << 10
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
		for range sessions {
			_, far := net.Pipe()
			tr := NewServer(far, NewBudget(MaxStreams, nil), func(*Stream) bool { return true })
			all = append(all, tr)
			runs.Go(func() { _ = tr.Run() })
		}
		if each := (heap() - before) / sessions; each > most {
			t.Errorf("a silent session holds %d bytes of heap, want at most %d", each, most)
		}
		time.Sleep(firstFrameTimeout + time.Millisecond)
		synctest.Wait()
		for _, tr := range all {
			if err := tr.failureCause(); !errors.Is(err, errIdle) {
				t.Fatalf("failure = %v", err)
			}
		}
		runs.Wait()
	})
}

// A session that receives nothing for idleTimeout accepts no more streams. The dialer closes it
// with its last stream. The server closes it if the dialer does not.
func TestIdleSessionIsClosed(t *testing.T) {
	withSessionPair(t, func(near, far *Session, given chan *Stream) {
		st, _ := near.OpenStream()
		synctest.Wait()
		at := <-given
		for range 100 { // the session is used
			time.Sleep(idleTimeout / 2)
			near.Ping()
			synctest.Wait()
		}
		if !near.CanOpen() {
			t.Fatal("the session ended while it was used")
		}
		time.Sleep(idleTimeout)
		synctest.Wait()
		if near.CanOpen() || !st.WouldBlock() {
			t.Errorf("after %v CanOpen = %v, and the open stream works: %v", idleTimeout, near.CanOpen(), st.WouldBlock())
		}
		time.Sleep(10 * dialerCloseTimeout)
		synctest.Wait()
		if err := errors.Join(near.failureCause(), far.failureCause()); err != nil {
			t.Errorf("a session with a stream has ended: %v", err)
		}
		_ = at.Close()
		_ = st.Close()
		synctest.Wait()
		if near.failureCause() == nil || far.failureCause() == nil {
			t.Error("the session has not ended without streams")
		}
	})
	withRawPeer(t, true, func(r *rawPeer) {
		r.startReading()
		r.send(framePing, 0, nil)
		time.Sleep(idleTimeout + dialerCloseTimeout + time.Millisecond)
		if n, _ := r.sent(frameGoAway); n != 1 || !errors.Is(r.runErr, errIdle) {
			t.Errorf("%d GOAWAY frames; Run = %v, where the dialer does not close it", n, r.runErr)
		}
	})
}

// The server closes an idle session whose last stream has closed if the dialer does not do so
// within dialerCloseTimeout. The idle check runs again for this.
func TestIdleSessionIsClosedAfterLastStream(t *testing.T) {
	withRawPeer(t, true, func(r *rawPeer) {
		r.startReading()
		r.send(frameOpen, 1, nil)
		st := <-r.accepted
		time.Sleep(idleTimeout + 2*dialerCloseTimeout)
		if n, _ := r.sent(frameGoAway); n != 1 || r.failureCause() != nil {
			t.Fatalf("%d GOAWAY frames; failure = %v with an open stream", n, r.failureCause())
		}
		r.send(frameClose, st.id, nil)
		_ = st.Close()
		time.Sleep(dialerCloseTimeout - time.Millisecond)
		if err := r.failureCause(); err != nil {
			t.Errorf("failure = %v before dialerCloseTimeout", err)
		}
		time.Sleep(2 * time.Millisecond)
		if synctest.Wait(); !errors.Is(r.runErr, errIdle) {
			t.Errorf("Run = %v where the dialer does not close it, want %v", r.runErr, errIdle)
		}
	})
}
