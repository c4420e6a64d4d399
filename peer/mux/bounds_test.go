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
func withSessionPair(t *testing.T, f func(near, far *Session, given chan *Stream)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		given := make(chan *Stream, 2*MaxStreams)
		near, far := NewClient(a, NewBudget(MaxStreams, nil)), NewServer(b, NewBudget(MaxStreams, nil), func(st *Stream) bool { given <- st; return true })
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
	withSessionPair(t, func(near, _ *Session, given chan *Stream) {
		w, err := near.OpenStream()
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
			if r.recv != nil {
				most = max(most, cap(r.recv.b))
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
	withSessionPair(t, func(near, far *Session, given chan *Stream) {
		open := func() error {
			st, err := near.OpenStream()
			if err == nil {
				_ = st.SetLinger(0)
				_ = st.Close()
			}
			return err
		}
		for range MaxStreams {
			if err := open(); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if err := open(); !errors.Is(err, ErrStreamLimit) {
			t.Errorf("Open = %v while %d are worked on, want %v", err, len(given), ErrStreamLimit)
		}
		_ = (<-given).Close()
		synctest.Wait()
		if err := open(); err != nil {
			t.Errorf("Open = %v after one was done", err)
		}
		if err := far.failure(); err != nil {
			t.Errorf("the other end: %v", err)
		}
	})
	withRawPeer(t, true, func(r *rawPeer) { // who does not count is given no more
		r.accepted = make(chan *Stream, MaxStreams)
		r.startReading()
		for i := range uint32(MaxStreams) {
			r.send(frameOpen, i+1, nil)
			r.send(frameReset, i+1, nil)
		}
		if r.runErr != nil || len(r.accepted) != MaxStreams {
			t.Fatalf("%d lanes are given, and the trunk ends with %v", len(r.accepted), r.runErr)
		}
		r.send(frameOpen, MaxStreams+1, nil)
		if n, _ := r.sent(frameRefuse); n != 1 || len(r.accepted) != MaxStreams {
			t.Errorf("%d lanes are given after one more, and %d refused", len(r.accepted), n)
		}
	})
}

// At the bound a lane that is opened in the place of another one does not overtake its close.
func TestTheBoundHoldsWhileLanesComeAndGo(t *testing.T) {
	a, b := net.Pipe()
	near, far := NewClient(a, NewBudget(MaxStreams, nil)), NewServer(b, NewBudget(MaxStreams, nil), func(st *Stream) bool {
		go func() {
			_ = st.Await()
			_ = st.Close()
		}()
		return true
	})
	var runs, all sync.WaitGroup
	runs.Go(func() { _ = near.Run() })
	runs.Go(func() { _ = far.Run() })
	lanes := make(chan *Stream, MaxStreams)
	for range MaxStreams {
		st, err := near.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		lanes <- st
	}
	for range 8 {
		all.Go(func() {
			for range 2_000 {
				select {
				case st := <-lanes:
					_ = st.Close()
				default:
				}
				if st, err := near.OpenStream(); err == nil {
					lanes <- st
				} else if !errors.Is(err, ErrStreamLimit) {
					return
				}
			}
		})
	}
	all.Wait()
	if err := far.failure(); err != nil {
		t.Errorf("the other end: %v", err)
	}
	near.Fail(net.ErrClosed)
	runs.Wait()
}

// What waits for an end that reads nothing is bounded, whatever is opened, said, cut and
// asked meanwhile.
func TestWhatWaitsForWhoReadsNothingIsBounded(t *testing.T) {
	withRawPeer(t, false, func(r *rawPeer) {
		opened := 0
		for range 3 * MaxStreams { // clients that come and go
			_ = r.enqueue(framePing, 0, nil)
			st, err := r.OpenStream()
			if err != nil {
				continue
			}
			opened++
			for _, n := range []int{8 << 10, maxFrameData + 1, maxFrameData + 1} {
				_ = st.SetWriteDeadline(time.Now().Add(time.Nanosecond))
				_, _ = st.Write(make([]byte, n))
			}
			_ = st.Close()
		}
		if opened != MaxStreams {
			t.Errorf("%d lanes are opened, want %d", opened, MaxStreams)
		}
		r.Session.mu.Lock()
		defer r.Session.mu.Unlock()
		if n := len(r.queue) + len(r.urgent); n > MaxStreams*(Window+8*headerLen) {
			t.Errorf("%d bytes wait to be written", n)
		}
		if n := len(r.urgent); n > headerLen {
			t.Errorf("%d bytes of pings wait to be written", n)
		}
		if n := len(r.blocked); n > MaxStreams {
			t.Errorf("%d lanes wait for room, want %d at most", n, MaxStreams)
		}
	})
	for what, k := range map[string]frameType{"cut": frameReset, "closed": frameClose} {
		t.Run(what, func(t *testing.T) {
			withRawPeer(t, true, func(r *rawPeer) { // whoever opened them
				r.accept = func(st *Stream) bool {
					go func() { _, _ = io.Copy(io.Discard, st); _ = st.Close() }()
					return true
				}
				for id := uint32(1); id < 20*MaxStreams; id += MaxStreams / 2 {
					var b []byte
					for i := range uint32(MaxStreams / 2) {
						b = appendFrame(appendFrame(b, frameOpen, id+i, nil), k, id+i, nil)
					}
					_, _ = r.conn.Write(b)
					synctest.Wait()
				}
				r.Session.mu.Lock()
				defer r.Session.mu.Unlock()
				if n := len(r.queue) + len(r.urgent); n > 2*MaxStreams*headerLen || len(r.closing) > MaxStreams || len(r.refusals) > MaxStreams {
					t.Errorf("%d bytes wait to be written, of %d lanes and %d that are refused", n, len(r.closing), len(r.refusals))
				}
			})
		})
	}
	withRawPeer(t, true, func(r *rawPeer) { // nor does credit pile up
		r.accept = func(st *Stream) bool { go func() { _, _ = io.Copy(io.Discard, st) }(); return true }
		r.send(frameOpen, 1, nil)
		r.send(framePing, 0, nil) // the writer is stuck from here on
		for range 1_000 {
			r.send(frameData, 1, make([]byte, maxFrameData))
		}
		r.Session.mu.Lock()
		if n := len(r.windowUpdates); n != 1 || r.windowUpdates[0].pendingCredit != 1_000*maxFrameData || len(r.urgent) != 0 {
			t.Errorf("%d credits wait to be written, and %d bytes", n, len(r.urgent))
		}
		r.Session.mu.Unlock()
		r.startReading()
		if n, b := r.sent(frameWindowUpdate); n != 1 || binary.BigEndian.Uint32(b) != 1_000*maxFrameData {
			t.Errorf("%d credits of %x are sent, want one of all", n, b)
		}
	})
	withRawPeer(t, true, func(r *rawPeer) {
		for range 1_000 {
			r.send(framePing, 0, nil)
		}
		r.Session.mu.Lock()
		defer r.Session.mu.Unlock()
		if n := len(r.urgent); n > headerLen {
			t.Errorf("%d bytes of answers wait to be written", n)
		}
	})
}

// While something is outstanding the path is given something to carry once in a while,
// however often that is asked for.
func TestAPathIsPingedOnceInAWhile(t *testing.T) {
	withRawPeer(t, false, func(r *rawPeer) {
		r.startReading()
		for range 100 {
			r.Ping()
			time.Sleep(pingInterval / 10)
		}
		if n, _ := r.sent(framePing); n != 10 {
			t.Errorf("%d pings in ten times %v", n, pingInterval)
		}
	})
}

// What is opened and not used is told of all the same: it would fill the queue for others.
func TestWhatIsOpenedIsToldOf(t *testing.T) {
	withSessionPair(t, func(near, _ *Session, given chan *Stream) {
		for range MaxStreams {
			if _, err := near.OpenStream(); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if len(given) != MaxStreams {
			t.Errorf("the other end knows %d lanes, want %d", len(given), MaxStreams)
		}
	})
}

// Who takes a lane not says so: what was said on it nobody has read, and the others go on.
func TestWhoTakesALaneNotSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		var given []*Stream
		near, far := NewClient(a, NewBudget(MaxStreams, nil)), NewServer(b, NewBudget(MaxStreams, nil), func(st *Stream) bool {
			if given = append(given, st); len(given) == 2 {
				return false
			}
			return true
		})
		var runs sync.WaitGroup
		runs.Go(func() { _ = near.Run() })
		runs.Go(func() { _ = far.Run() })
		var lanes []*Stream
		for range 3 {
			st, err := near.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			_, _ = st.Write([]byte("x"))
			lanes = append(lanes, st)
		}
		synctest.Wait()
		if lanes[0].Unprocessed() || !lanes[1].Unprocessed() || lanes[2].Unprocessed() {
			t.Errorf("untaken: %v, %v, %v, want the second alone", lanes[0].Unprocessed(), lanes[1].Unprocessed(), lanes[2].Unprocessed())
		}
		if n, err := lanes[0].Write([]byte("goes on")); n != 7 || err != nil || !near.CanOpen() {
			t.Errorf("Write = %v on one that was taken; more are opened: %v", err, near.CanOpen())
		}
		for _, st := range append(lanes, given...) {
			_ = st.Close()
		}
		synctest.Wait()
		if near.budget.InUse() != 0 || far.budget.InUse() != 0 {
			t.Errorf("%d and %d lanes count in the end", near.budget.InUse(), far.budget.InUse())
		}
		near.Drain() // without lanes both end
		runs.Wait()
	})
}

// The last word is said once, of a lane that was opened and of none that it took back.
func TestTheLastWordIsJudged(t *testing.T) {
	for what, tc := range map[string]struct {
		says func(r *rawPeer)
		good bool
	}{
		"of what was opened":  {func(r *rawPeer) { r.send(frameGoAway, 2, nil) }, true},
		"of less":             {func(r *rawPeer) { r.send(frameGoAway, 1, nil) }, true},
		"of what was not":     {func(r *rawPeer) { r.send(frameGoAway, 3, nil) }, false},
		"twice":               {func(r *rawPeer) { r.send(frameGoAway, 2, nil); r.send(frameGoAway, 2, nil) }, false},
		"of what was spoken":  {func(r *rawPeer) { r.send(frameData, 2, []byte("x")); r.send(frameGoAway, 2, nil) }, true},
		"of what is withheld": {func(r *rawPeer) { r.send(frameData, 2, []byte("x")); r.send(frameGoAway, 1, nil) }, false},
	} {
		t.Run(what, func(t *testing.T) {
			withRawPeer(t, false, func(r *rawPeer) {
				r.startReading()
				_, _ = r.OpenStream()
				st, _ := r.OpenStream()
				_, _ = st.Write([]byte("x"))
				synctest.Wait()
				if tc.says(r); (r.runErr == nil) != tc.good || !tc.good && !errors.Is(r.runErr, errProtocol) {
					t.Errorf("Run = %v, want that it goes on: %v", r.runErr, tc.good)
				}
				if st.Unprocessed() != (what == "of less") {
					t.Errorf("untaken: %v", st.Unprocessed())
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
		var lanes []*Stream
		for range 2 {
			near, far := net.Pipe()
			tr := NewClient(near, part)
			go func() { _ = tr.Run() }()
			st, err := tr.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			lanes = append(lanes, st)
			if part.InUse() != 1 || part.parent.InUse() != 1 {
				t.Errorf("%d and %d count", part.InUse(), part.parent.InUse())
			}
			_ = far.Close()
			synctest.Wait()
		}
		if part.InUse() != 0 || part.parent.InUse() != 0 || all.InUse() != 2 {
			t.Errorf("%d and %d of %d count while they are not closed here, want those of all", part.InUse(), part.parent.InUse(), all.InUse())
		}
		for _, st := range lanes {
			_, _ = st.Close(), st.Close()
		}
		if part.InUse() != 0 || all.InUse() != 0 {
			t.Errorf("%d of %d count in the end", part.InUse(), all.InUse())
		}
		_, _ = all.acquire(1), all.acquire(1) // to others: one is left
		for _, want := range []bool{true, false, false} {
			if got := part.acquire(1); got != want || part.InUse() != 1 {
				t.Errorf("lent: %v, %d in all, want %v", got, part.InUse(), want)
			}
		}
	})
}

// A lane that was promised as taken, as the last word was said, and then cannot be given is
// refused, too.
func TestALaneThatWasPromisedIsRefused(t *testing.T) {
	withRawPeer(t, true, func(r *rawPeer) {
		r.startReading()
		r.accept = func(*Stream) bool {
			r.GoAway(0)
			return false
		}
		r.send(frameOpen, 1, nil)
		if n, _ := r.sent(frameRefuse); n != 1 {
			t.Errorf("%d refusals, want one", n)
		}
		if n, _ := r.sent(frameGoAway); n != 1 || r.sentFrames[0].stream != 1 {
			t.Errorf("%d last words: %v", n, r.sentFrames)
		}
	})
}
