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

// shared is a trunk whose lanes share bytes, with both its ends.
type windowPair struct {
	*testing.T
	client, server *Session
	pool           *Budget // of far
	accepted       chan *Stream
}

// inShared runs f in a bubble, where the lanes share so many bytes at each end.
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

// pours has so many bytes written, and read once what is written waits for that. It returns the
// largest window that there was.
func (w *windowPair) transfer(near, far *Stream, n int) (most int) {
	w.Helper()
	var says sync.WaitGroup
	says.Go(func() {
		if _, err := near.Write(make([]byte, n)); err != nil {
			w.Errorf("Write: %v", err)
		}
	})
	for b := make([]byte, maxFrameData); n > 0; {
		synctest.Wait() // all that has credit is there
		m, err := far.Read(b)
		if n -= m; err != nil {
			w.Fatalf("Read: %v", err)
		}
		most = max(most, far.window) // nobody else is at it
	}
	says.Wait()
	synctest.Wait()
	return most
}

// wantWindows fails the test unless these are the windows of the lanes, and what is lent is what
// they are beyond the first ones.
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
		w.Errorf("%s: %d bytes are lent, %d of all, want %d", what, got, w.pool.parent.InUse(), lent)
	}
}

// The window of a lane that is read grows as long as there are bytes to share. Where there are
// few left who does not need his gives back, and who leaves gives back all.
func TestWhoIsReadIsLentAWindow(t *testing.T) {
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
			t.Errorf("the window grows to %d with what there is, want %d", most, Window/2)
		}
		w.wantWindows("few are left", map[*Stream]int{far1: Window, far2: Window / 2, far3: Window / 2})
		for range Window / 64 {
			w.transfer(near1, far1, 64)
		}
		w.wantWindows("one has given back", map[*Stream]int{far1: Window / 4, far2: Window / 2, far3: Window / 2})
		_ = far2.Close()
		w.wantWindows("one has left", map[*Stream]int{far1: Window / 4, far2: FirstWindow, far3: Window / 2})
		if most := w.transfer(near3, far3, 16*Window); most != Window {
			t.Errorf("the window grows to %d with what was given back, want %d", most, Window)
		}
		_, _ = near1.Write(make([]byte, 64)) // it comes, and is kept
		synctest.Wait()
		w.server.Fail(net.ErrClosed)
		_, _ = far1.Close(), far3.Close()
		w.wantWindows("the trunk has failed", map[*Stream]int{far1: FirstWindow, far3: FirstWindow})
	})
}

// Who sends more than the first window before anything was read loses the trunk.
func TestTheFirstWindowIsSmallWhereBytesAreShared(t *testing.T) {
	for _, more := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			tr := NewServer(near, NewBudget(MaxWebSocketStreams, nil).WithWindowPool(NewBudget(Window, nil)), func(*Stream) bool { return true })
			ended := make(chan error, 1)
			go func() { ended <- tr.Run() }()
			b := appendFrame(nil, frameOpen, 1, nil)
			_, _ = far.Write(appendFrame(b, frameData, 1, make([]byte, FirstWindow+more)))
			synctest.Wait()
			if err := tr.failure(); errors.Is(err, errProtocol) != (more > 0) {
				t.Errorf("the trunk ends with %v after %d bytes more than there is room for", err, more)
			}
			_ = far.Close()
			if err := <-ended; err == nil {
				t.Error("it ends without a reason")
			}
		})
	}
}

// Whatever is said and read in whatever order: it arrives, and no end keeps more than each lane
// has and all share.
func TestWhatSharesBytesArrives(t *testing.T) {
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
						w.Errorf("%d bytes arrive, not as they were said: %v", len(got), err)
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
					w.Fatal(fmt.Sprint(n, " bytes are kept"))
				}
			}
		}
	})
}

// kept is what the lanes of a trunk keep that nobody has read.
func unreadBytes(s *Session) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		st.mu.Lock()
		if st.recv != nil {
			n += len(st.recv.b) - st.recvOffset
		}
		st.mu.Unlock()
	}
	return n
}
