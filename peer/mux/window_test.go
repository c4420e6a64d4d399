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
type shared struct {
	*testing.T
	near, far *Trunk
	bytes     *Budget // of far
	given     chan *Lane
}

// inShared runs f in a bubble, where the lanes share so many bytes at each end.
func inShared(t *testing.T, most int32, f func(w *shared)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		w := &shared{T: t, bytes: NewBudget(most, NewBudget(most, nil)), given: make(chan *Lane, MaxLegs)}
		w.near = Dialed(a, NewBudget(MaxLegs, nil).Sharing(NewBudget(most, nil)))
		w.far = Accepted(b, NewBudget(MaxLegs, nil).Sharing(w.bytes), func(l *Lane) bool { w.given <- l; return true })
		var runs sync.WaitGroup
		runs.Go(func() { _ = w.near.Run() })
		runs.Go(func() { _ = w.far.Run() })
		defer runs.Wait()
		defer w.far.Fail(net.ErrClosed)
		defer w.near.Fail(net.ErrClosed)
		f(w)
	})
}

func (w *shared) lane() (near, far *Lane) {
	w.Helper()
	near, err := w.near.Open()
	if err != nil {
		w.Fatal(err)
	}
	return near, <-w.given
}

// pours has so many bytes written, and read once what is written waits for that. It returns the
// largest window that there was.
func (w *shared) pours(near, far *Lane, n int) (most int) {
	w.Helper()
	var says sync.WaitGroup
	says.Go(func() {
		if _, err := near.Write(make([]byte, n)); err != nil {
			w.Errorf("Write: %v", err)
		}
	})
	for b := make([]byte, maxData); n > 0; {
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
func (w *shared) wantWindows(what string, want map[*Lane]int) {
	w.Helper()
	lent := 0
	for l, n := range want {
		lent += n - FirstWindow
		l.mu.Lock()
		got := l.window
		l.mu.Unlock()
		if got != n {
			w.Errorf("%s: the window is %d, want %d", what, got, n)
		}
	}
	if got := w.bytes.Lent(); got != lent || w.bytes.of.Lent() != lent {
		w.Errorf("%s: %d bytes are lent, %d of all, want %d", what, got, w.bytes.of.Lent(), lent)
	}
}

// The window of a lane that is read grows as long as there are bytes to share. Where there are
// few left who does not need his gives back, and who leaves gives back all.
func TestWhoIsReadIsLentAWindow(t *testing.T) {
	inShared(t, 2*(Window-FirstWindow), func(w *shared) {
		near1, far1 := w.lane()
		near2, far2 := w.lane()
		near3, far3 := w.lane()
		w.pours(near1, far1, 16*Window)
		w.wantWindows("one", map[*Lane]int{far1: Window, far2: FirstWindow, far3: FirstWindow})
		for range 16 * Window / 64 {
			w.pours(near1, far1, 64)
		}
		w.wantWindows("one that says little now", map[*Lane]int{far1: Window, far2: FirstWindow, far3: FirstWindow})
		if most := w.pours(near2, far2, 16*Window); most != Window {
			t.Errorf("the window grows to %d, want %d", most, Window)
		}
		w.wantWindows("most are lent", map[*Lane]int{far1: Window, far2: Window / 2, far3: FirstWindow})
		if most := w.pours(near3, far3, 16*Window); most != Window/2 {
			t.Errorf("the window grows to %d with what there is, want %d", most, Window/2)
		}
		w.wantWindows("few are left", map[*Lane]int{far1: Window, far2: Window / 2, far3: Window / 2})
		for range Window / 64 {
			w.pours(near1, far1, 64)
		}
		w.wantWindows("one has given back", map[*Lane]int{far1: Window / 4, far2: Window / 2, far3: Window / 2})
		_ = far2.Close()
		w.wantWindows("one has left", map[*Lane]int{far1: Window / 4, far2: FirstWindow, far3: Window / 2})
		if most := w.pours(near3, far3, 16*Window); most != Window {
			t.Errorf("the window grows to %d with what was given back, want %d", most, Window)
		}
		_, _ = near1.Write(make([]byte, 64)) // it comes, and is kept
		synctest.Wait()
		w.far.Fail(net.ErrClosed)
		_, _ = far1.Close(), far3.Close()
		w.wantWindows("the trunk has failed", map[*Lane]int{far1: FirstWindow, far3: FirstWindow})
	})
}

// Who sends more than the first window before anything was read loses the trunk.
func TestTheFirstWindowIsSmallWhereBytesAreShared(t *testing.T) {
	for _, more := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			tr := Accepted(near, NewBudget(MaxLegs, nil).Sharing(NewBudget(Window, nil)), func(*Lane) bool { return true })
			ended := make(chan error, 1)
			go func() { ended <- tr.Run() }()
			b := appendFrame(nil, kindOpen, 1, nil)
			_, _ = far.Write(appendFrame(b, kindData, 1, make([]byte, FirstWindow+more)))
			synctest.Wait()
			if err := tr.failed(); errors.Is(err, errFrame) != (more > 0) {
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
	inShared(t, most, func(w *shared) {
		var all sync.WaitGroup
		for i := range many {
			near, far := w.lane()
			for j, way := range [][2]*Lane{{near, far}, {far, near}} {
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
				if n := kept(w.far); n > many*FirstWindow+most {
					w.Fatal(fmt.Sprint(n, " bytes are kept"))
				}
			}
		}
	})
}

// kept is what the lanes of a trunk keep that nobody has read.
func kept(t *Trunk) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.lanes {
		l.mu.Lock()
		if l.in != nil {
			n += len(l.in.b) - l.taken
		}
		l.mu.Unlock()
	}
	return n
}
