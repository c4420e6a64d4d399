package mux

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
)

// windowPair is both ends of a session whose streams share a window pool.
type windowPair struct {
	*testing.T
	client, server *Session
	pool           *Budget // of the server
	accepted       chan *Stream
}

// withWindowPair runs f in a synctest bubble. The pool at each end has most bytes.
func withWindowPair(t *testing.T, most int32, f func(w *windowPair)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		w := &windowPair{T: t, pool: NewBudget(most, NewBudget(most, nil)), accepted: make(chan *Stream, MaxWebSocketStreams)}
		w.client = NewClient(a, NewBudget(MaxWebSocketStreams, nil).WithWindowPool(NewBudget(most, nil)))
		w.server = NewServer(b, NewBudget(MaxWebSocketStreams, nil).WithWindowPool(w.pool), func(st *Stream) bool { w.accepted <- st; return true })
		var runs sync.WaitGroup
		runs.Go(func() { _ = w.client.Run() })
		runs.Go(func() { _ = w.server.Run() })
		defer runs.Wait()
		defer w.server.Fail(net.ErrClosed)
		defer w.client.Fail(net.ErrClosed)
		f(w)
	})
}

func (w *windowPair) openStream() (near, far *Stream) {
	w.Helper()
	near, err := w.client.OpenStream()
	if err != nil {
		w.Fatal(err)
	}
	return near, <-w.accepted
}

// transfer writes and reads n bytes. Each read happens when the writer has no credit left. It returns
// the largest window of the stream.
func (w *windowPair) transfer(near, far *Stream, n int) (most int) {
	w.Helper()
	var says sync.WaitGroup
	says.Go(func() {
		if _, err := near.Write(make([]byte, n)); err != nil {
			w.Errorf("Write: %v", err)
		}
	})
	for b := make([]byte, maxFrameData); n > 0; {
		synctest.Wait() // all bytes with credit have arrived
		m, err := far.Read(b)
		if n -= m; err != nil {
			w.Fatalf("Read: %v", err)
		}
		most = max(most, far.window) // no other goroutine uses the stream
	}
	says.Wait()
	synctest.Wait()
	return most
}

// wantWindows checks the windows of the streams, and that the pool usage is their sum beyond
// FirstWindow each.
func (w *windowPair) wantWindows(what string, want map[*Stream]int) {
	w.Helper()
	lent := 0
	for st, n := range want {
		lent += n - FirstWindow
		st.mu.Lock()
		got := st.window
		st.mu.Unlock()
		if got != n {
			w.Errorf("%s: the window is %d, want %d", what, got, n)
		}
	}
	if got := w.pool.InUse(); got != lent || w.pool.parent.InUse() != lent {
		w.Errorf("%s: %d bytes are in use, %d in the parent, want %d", what, got, w.pool.parent.InUse(), lent)
	}
}

// The window of a stream that is read grows while the pool has bytes. When few are left, a stream
// that does not need its window returns a part of it, and a stream that closes returns all.
func TestWindowGrowsFromPool(t *testing.T) {
	withWindowPair(t, 2*(Window-FirstWindow), func(w *windowPair) {
		near1, far1 := w.openStream()
		near2, far2 := w.openStream()
		near3, far3 := w.openStream()
		w.transfer(near1, far1, 16*Window)
		w.wantWindows("one", map[*Stream]int{far1: Window, far2: FirstWindow, far3: FirstWindow})
		for range 16 * Window / 64 {
			w.transfer(near1, far1, 64)
		}
		w.wantWindows("one that says little now", map[*Stream]int{far1: Window, far2: FirstWindow, far3: FirstWindow})
		if most := w.transfer(near2, far2, 16*Window); most != Window {
			t.Errorf("the window grows to %d, want %d", most, Window)
		}
		w.wantWindows("most are lent", map[*Stream]int{far1: Window, far2: Window / 2, far3: FirstWindow})
		if most := w.transfer(near3, far3, 16*Window); most != Window/2 {
			t.Errorf("the window grows to %d with the rest of the pool, want %d", most, Window/2)
		}
		w.wantWindows("few are left", map[*Stream]int{far1: Window, far2: Window / 2, far3: Window / 2})
		for range Window / 64 {
			w.transfer(near1, far1, 64)
		}
		w.wantWindows("one has given back", map[*Stream]int{far1: Window / 4, far2: Window / 2, far3: Window / 2})
		_ = far2.Close()
		w.wantWindows("one has left", map[*Stream]int{far1: Window / 4, far2: FirstWindow, far3: Window / 2})
		if most := w.transfer(near3, far3, 16*Window); most != Window {
			t.Errorf("the window grows to %d with the returned bytes, want %d", most, Window)
		}
		_, _ = near1.Write(make([]byte, 64)) // it is received and stays unread
		synctest.Wait()
		w.server.Fail(net.ErrClosed)
		_, _ = far1.Close(), far3.Close()
		w.wantWindows("the session has failed", map[*Stream]int{far1: FirstWindow, far3: FirstWindow})
	})
}

// A peer that sends more than FirstWindow before anything was read loses the session.
func TestFirstWindowIsEnforcedWithPool(t *testing.T) {
	for _, more := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			tr := NewServer(near, NewBudget(MaxWebSocketStreams, nil).WithWindowPool(NewBudget(Window, nil)), func(*Stream) bool { return true })
			ended := make(chan error, 1)
			go func() { ended <- tr.Run() }()
			b := appendFrame(nil, frameOpen, 1, nil)
			_, _ = far.Write(appendFrame(b, frameData, 1, make([]byte, FirstWindow+more)))
			synctest.Wait()
			if err := tr.failureCause(); errors.Is(err, errProtocol) != (more > 0) {
				t.Errorf("Run = %v after %d bytes beyond FirstWindow", err, more)
			}
			_ = far.Close()
			if err := <-ended; err == nil {
				t.Error("Run = nil")
			}
		})
	}
}

// All bytes arrive, however writes and reads are interleaved, and no end keeps more than the first
// windows and the pool.
func TestStreamsOfPoolDeliverTheirBytes(t *testing.T) {
	const many, total, most = 40, 5 * Window, 3 * Window
	withWindowPair(t, most, func(w *windowPair) {
		var all sync.WaitGroup
		for i := range many {
			near, far := w.openStream()
			for j, way := range [][2]*Stream{{near, far}, {far, near}} {
				text := bytes.Repeat([]byte{byte(i), byte(j)}, total/2)
				all.Go(func() {
					for left := text; len(left) > 0; {
						n := min(len(left), 1+rand.IntN(2*FirstWindow))
						if _, err := way[0].Write(left[:n]); err != nil {
							w.Errorf("Write: %v", err)
							return
						}
						left = left[n:]
					}
					_ = way[0].CloseWrite()
				})
				all.Go(func() {
					got, err := io.ReadAll(io.MultiReader(io.LimitReader(way[1], rand.Int64N(total)), way[1]))
					if err != nil || !bytes.Equal(got, text) {
						w.Errorf("%d bytes arrived, not as written: %v", len(got), err)
					}
				})
			}
		}
		done := make(chan struct{})
		go func() { all.Wait(); close(done) }()
		for over := false; !over; {
			select {
			case <-done:
				over = true
			default:
				if n := unreadBytes(w.server); n > many*FirstWindow+most {
					w.Fatal(fmt.Sprint(n, " bytes are buffered"))
				}
			}
		}
	})
}

// unreadBytes returns the unread bytes of all streams of a session.
func unreadBytes(s *Session) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		st.mu.Lock()
		if st.recv != nil {
			n += len(st.recv.data) - st.recvOffset
		}
		st.mu.Unlock()
	}
	return n
}
