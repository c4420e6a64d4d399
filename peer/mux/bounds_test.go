package mux

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// between runs f in a bubble with both ends of a trunk.
func between(t *testing.T, f func(near, far *Trunk, given chan *Lane)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		given := make(chan *Lane, 2*MaxLanes)
		near, far := Dialed(a, NewBudget(MaxLanes, nil)), Accepted(b, NewBudget(MaxLanes, nil), func(l *Lane) bool { given <- l; return true })
		var runs sync.WaitGroup
		runs.Go(func() { _ = near.Run() })
		runs.Go(func() { _ = far.Run() })
		defer runs.Wait()
		defer far.Fail(net.ErrClosed)
		defer near.Fail(net.ErrClosed)
		f(near, far, given)
	})
}

// A reader that is always a little behind never empties what its lane keeps, which is
// bounded all the same.
func TestAReaderThatIsALittleBehindKeepsLittle(t *testing.T) {
	between(t, func(near, _ *Trunk, given chan *Lane) {
		w, err := near.Open()
		if err != nil {
			t.Fatal(err)
		}
		const total = 2 << 20
		go func() { _, _ = w.Write(make([]byte, total)) }()
		r := <-given
		most := 0
		buf := make([]byte, 4<<10)
		for got := 0; got < total-Window; {
			time.Sleep(time.Millisecond) // a slow client
			n, err := r.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			got += n
			r.mu.Lock()
			if r.in != nil {
				most = max(most, cap(r.in.b))
			}
			r.mu.Unlock()
		}
		if most > Window {
			t.Errorf("a lane keeps %d KiB, the window is %d KiB", most>>10, Window>>10)
		}
	})
}

// Lanes that are opened and cut at once cost the other end work all the same: each counts
// until that has closed it, too.
func TestWhoOpensAndCutsAtOnceIsHeldToTheBound(t *testing.T) {
	between(t, func(near, far *Trunk, given chan *Lane) {
		open := func() error {
			l, err := near.Open()
			if err == nil {
				_ = l.SetLinger(0)
				_ = l.Close()
			}
			return err
		}
		for range MaxLanes {
			if err := open(); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if err := open(); !errors.Is(err, ErrFull) {
			t.Errorf("Open = %v while %d are worked on, want %v", err, len(given), ErrFull)
		}
		_ = (<-given).Close()
		synctest.Wait()
		if err := open(); err != nil {
			t.Errorf("Open = %v after one was done", err)
		}
		if err := far.failed(); err != nil {
			t.Errorf("the other end: %v", err)
		}
	})
	withRaw(t, true, func(r *raw) { // who does not count is given no more
		r.given = make(chan *Lane, MaxLanes)
		r.hears()
		for i := range uint32(MaxLanes) {
			r.says(kindOpen, i+1, nil)
			r.says(kindReset, i+1, nil)
		}
		if r.ended != nil || len(r.given) != MaxLanes {
			t.Fatalf("%d lanes are given, and the trunk ends with %v", len(r.given), r.ended)
		}
		r.says(kindOpen, MaxLanes+1, nil)
		if n, _ := r.sent(kindRefuse); n != 1 || len(r.given) != MaxLanes {
			t.Errorf("%d lanes are given after one more, and %d refused", len(r.given), n)
		}
	})
}

// At the bound a lane that is opened in the place of another one does not overtake its close.
func TestTheBoundHoldsWhileLanesComeAndGo(t *testing.T) {
	a, b := net.Pipe()
	near, far := Dialed(a, NewBudget(MaxLanes, nil)), Accepted(b, NewBudget(MaxLanes, nil), func(l *Lane) bool {
		go func() {
			_ = l.Await()
			_ = l.Close()
		}()
		return true
	})
	var runs, all sync.WaitGroup
	runs.Go(func() { _ = near.Run() })
	runs.Go(func() { _ = far.Run() })
	lanes := make(chan *Lane, MaxLanes)
	for range MaxLanes {
		l, err := near.Open()
		if err != nil {
			t.Fatal(err)
		}
		lanes <- l
	}
	for range 8 {
		all.Go(func() {
			for range 2_000 {
				select {
				case l := <-lanes:
					_ = l.Close()
				default:
				}
				if l, err := near.Open(); err == nil {
					lanes <- l
				} else if !errors.Is(err, ErrFull) {
					return
				}
			}
		})
	}
	all.Wait()
	if err := far.failed(); err != nil {
		t.Errorf("the other end: %v", err)
	}
	near.Fail(net.ErrClosed)
	runs.Wait()
}

// What waits for an end that reads nothing is bounded, whatever is opened, said, cut and
// asked meanwhile.
func TestWhatWaitsForWhoReadsNothingIsBounded(t *testing.T) {
	withRaw(t, false, func(r *raw) {
		opened := 0
		for range 3 * MaxLanes { // clients that come and go
			_ = r.put(kindPing, 0, nil)
			l, err := r.Open()
			if err != nil {
				continue
			}
			opened++
			for _, n := range []int{8 << 10, maxData + 1, maxData + 1} {
				_ = l.SetWriteDeadline(time.Now().Add(time.Nanosecond))
				_, _ = l.Write(make([]byte, n))
			}
			_ = l.Close()
		}
		if opened != MaxLanes {
			t.Errorf("%d lanes are opened, want %d", opened, MaxLanes)
		}
		r.Trunk.mu.Lock()
		defer r.Trunk.mu.Unlock()
		if n := len(r.out) + len(r.urgent); n > MaxLanes*(Window+8*headLen) {
			t.Errorf("%d bytes wait to be written", n)
		}
		if n := len(r.urgent); n > headLen {
			t.Errorf("%d bytes of pings wait to be written", n)
		}
		if n := len(r.crowd); n > MaxLanes {
			t.Errorf("%d lanes wait for room, want %d at most", n, MaxLanes)
		}
	})
	for what, k := range map[string]kind{"cut": kindReset, "closed": kindClose} {
		t.Run(what, func(t *testing.T) {
			withRaw(t, true, func(r *raw) { // whoever opened them
				r.give = func(l *Lane) bool {
					go func() { _, _ = io.Copy(io.Discard, l); _ = l.Close() }()
					return true
				}
				for id := uint32(1); id < 20*MaxLanes; id += MaxLanes / 2 {
					var b []byte
					for i := range uint32(MaxLanes / 2) {
						b = appendFrame(appendFrame(b, kindOpen, id+i, nil), k, id+i, nil)
					}
					_, _ = r.far.Write(b)
					synctest.Wait()
				}
				r.Trunk.mu.Lock()
				defer r.Trunk.mu.Unlock()
				if n := len(r.out) + len(r.urgent); n > 2*MaxLanes*headLen || len(r.parting) > MaxLanes || len(r.refusals) > MaxLanes {
					t.Errorf("%d bytes wait to be written, of %d lanes and %d that are refused", n, len(r.parting), len(r.refusals))
				}
			})
		})
	}
	withRaw(t, true, func(r *raw) { // nor does credit pile up
		r.give = func(l *Lane) bool { go func() { _, _ = io.Copy(io.Discard, l) }(); return true }
		r.says(kindOpen, 1, nil)
		r.says(kindPing, 0, nil) // the writer is stuck from here on
		for range 1_000 {
			r.says(kindData, 1, make([]byte, maxData))
		}
		r.Trunk.mu.Lock()
		if n := len(r.credits); n != 1 || r.credits[0].back != 1_000*maxData || len(r.urgent) != 0 {
			t.Errorf("%d credits wait to be written, and %d bytes", n, len(r.urgent))
		}
		r.Trunk.mu.Unlock()
		r.hears()
		if n, b := r.sent(kindCredit); n != 1 || binary.BigEndian.Uint32(b) != 1_000*maxData {
			t.Errorf("%d credits of %x are sent, want one of all", n, b)
		}
	})
	withRaw(t, true, func(r *raw) {
		for range 1_000 {
			r.says(kindPing, 0, nil)
		}
		r.Trunk.mu.Lock()
		defer r.Trunk.mu.Unlock()
		if n := len(r.urgent); n > headLen {
			t.Errorf("%d bytes of answers wait to be written", n)
		}
	})
}

// While something is outstanding the path is given something to carry once in a while,
// however often that is asked for.
func TestAPathIsPingedOnceInAWhile(t *testing.T) {
	withRaw(t, false, func(r *raw) {
		r.hears()
		for range 100 {
			r.Ping()
			time.Sleep(pingEvery / 10)
		}
		if n, _ := r.sent(kindPing); n != 10 {
			t.Errorf("%d pings in ten times %v", n, pingEvery)
		}
	})
}

// What is opened and not used is told of all the same: it would fill the queue for others.
func TestWhatIsOpenedIsToldOf(t *testing.T) {
	between(t, func(near, _ *Trunk, given chan *Lane) {
		for range MaxLanes {
			if _, err := near.Open(); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if len(given) != MaxLanes {
			t.Errorf("the other end knows %d lanes, want %d", len(given), MaxLanes)
		}
	})
}

// Who takes a lane not says so: what was said on it nobody has read, and the others go on.
func TestWhoTakesALaneNotSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		var given []*Lane
		near, far := Dialed(a, NewBudget(MaxLanes, nil)), Accepted(b, NewBudget(MaxLanes, nil), func(l *Lane) bool {
			if given = append(given, l); len(given) == 2 {
				return false
			}
			return true
		})
		var runs sync.WaitGroup
		runs.Go(func() { _ = near.Run() })
		runs.Go(func() { _ = far.Run() })
		var lanes []*Lane
		for range 3 {
			l, err := near.Open()
			if err != nil {
				t.Fatal(err)
			}
			_, _ = l.Write([]byte("x"))
			lanes = append(lanes, l)
		}
		synctest.Wait()
		if lanes[0].Untaken() || !lanes[1].Untaken() || lanes[2].Untaken() {
			t.Errorf("untaken: %v, %v, %v, want the second alone", lanes[0].Untaken(), lanes[1].Untaken(), lanes[2].Untaken())
		}
		if n, err := lanes[0].Write([]byte("goes on")); n != 7 || err != nil || !near.Works() {
			t.Errorf("Write = %v on one that was taken; more are opened: %v", err, near.Works())
		}
		for _, l := range append(lanes, given...) {
			_ = l.Close()
		}
		synctest.Wait()
		if near.budget.Lent() != 0 || far.budget.Lent() != 0 {
			t.Errorf("%d and %d lanes count in the end", near.budget.Lent(), far.budget.Lent())
		}
		near.Retire() // without lanes both end
		runs.Wait()
	})
}

// The last word is said once, of a lane that was opened and of none that it took back.
func TestTheLastWordIsJudged(t *testing.T) {
	for what, tc := range map[string]struct {
		says func(r *raw)
		good bool
	}{
		"of what was opened":  {func(r *raw) { r.says(kindLast, 2, nil) }, true},
		"of less":             {func(r *raw) { r.says(kindLast, 1, nil) }, true},
		"of what was not":     {func(r *raw) { r.says(kindLast, 3, nil) }, false},
		"twice":               {func(r *raw) { r.says(kindLast, 2, nil); r.says(kindLast, 2, nil) }, false},
		"of what was spoken":  {func(r *raw) { r.says(kindData, 2, []byte("x")); r.says(kindLast, 2, nil) }, true},
		"of what is withheld": {func(r *raw) { r.says(kindData, 2, []byte("x")); r.says(kindLast, 1, nil) }, false},
	} {
		t.Run(what, func(t *testing.T) {
			withRaw(t, false, func(r *raw) {
				r.hears()
				_, _ = r.Open()
				l, _ := r.Open()
				_, _ = l.Write([]byte("x"))
				synctest.Wait()
				if tc.says(r); (r.ended == nil) != tc.good || !tc.good && !errors.Is(r.ended, errFrame) {
					t.Errorf("Run = %v, want that it goes on: %v", r.ended, tc.good)
				}
				if l.Untaken() != (what == "of less") {
					t.Errorf("untaken: %v", l.Untaken())
				}
			})
		})
	}
}

// What a lane counts in is given back once this end has closed it, by no more than it took. Of
// a trunk that has failed it counts among those of all nodes alone.
func TestWhatWasLentIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := NewBudget(3, nil)
		part := NewBudget(2, NewBudget(3, all))
		var lanes []*Lane
		for range 2 {
			near, far := net.Pipe()
			tr := Dialed(near, part)
			go func() { _ = tr.Run() }()
			l, err := tr.Open()
			if err != nil {
				t.Fatal(err)
			}
			lanes = append(lanes, l)
			if part.Lent() != 1 || part.of.Lent() != 1 {
				t.Errorf("%d and %d count", part.Lent(), part.of.Lent())
			}
			_ = far.Close()
			synctest.Wait()
		}
		if part.Lent() != 0 || part.of.Lent() != 0 || all.Lent() != 2 {
			t.Errorf("%d and %d of %d count while they are not closed here, want those of all", part.Lent(), part.of.Lent(), all.Lent())
		}
		for _, l := range lanes {
			_, _ = l.Close(), l.Close()
		}
		if part.Lent() != 0 || all.Lent() != 0 {
			t.Errorf("%d of %d count in the end", part.Lent(), all.Lent())
		}
		_, _ = all.lend(1), all.lend(1) // to others: one is left
		for _, want := range []bool{true, false, false} {
			if got := part.lend(1); got != want || part.Lent() != 1 {
				t.Errorf("lent: %v, %d in all, want %v", got, part.Lent(), want)
			}
		}
	})
}

// A lane that was promised as taken, as the last word was said, and then cannot be given is
// refused, too.
func TestALaneThatWasPromisedIsRefused(t *testing.T) {
	withRaw(t, true, func(r *raw) {
		r.hears()
		r.give = func(*Lane) bool {
			r.Last(0)
			return false
		}
		r.says(kindOpen, 1, nil)
		if n, _ := r.sent(kindRefuse); n != 1 {
			t.Errorf("%d refusals, want one", n)
		}
		if n, _ := r.sent(kindLast); n != 1 || r.frames[0].lane != 1 {
			t.Errorf("%d last words: %v", n, r.frames)
		}
	})
}
