package mux

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A lane that one end has closed is free there before the other one can know. The next one, by
// another trunk, met a budget that was spent, and ended that trunk for all.
func TestALaneBeyondTheBoundCostsNoOther(t *testing.T) {
	between(t, func(near, far *Trunk, given chan *Lane) {
		far.budget.most = 1
		taken, err := near.Open()
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		beyond, err := near.Open()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = beyond.Write([]byte("x"))
		synctest.Wait()
		if !beyond.Untaken() || taken.Untaken() || !near.Works() {
			t.Errorf("untaken: %v and %v, want the one beyond; the trunk takes lanes: %v", beyond.Untaken(), taken.Untaken(), near.Works())
		}
		_ = beyond.Close()
		_ = taken.Close()
		_ = (<-given).Close()
		synctest.Wait()
		if l, err := near.Open(); err != nil {
			t.Error(err)
		} else if synctest.Wait(); l.Untaken() || len(given) != 1 {
			t.Errorf("%d lanes are given once there is room", len(given))
		}
	})
}

// Who had given up a trunk opened lanes by the next one, and the other end, that still worked
// on those of the first, ended each trunk with its first lane.
func TestABrokenTrunkLeavesItsLanesToTheNext(t *testing.T) {
	between(t, func(near, far *Trunk, given chan *Lane) {
		for range MaxLanes {
			l, err := near.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
		}
		synctest.Wait()
		if len(given) != MaxLanes || far.budget.Lent() != MaxLanes {
			t.Fatalf("%d lanes are given", len(given))
		}
		near.Fail(io.ErrClosedPipe)
		synctest.Wait()
		a, b := net.Pipe()
		next, there := Dialed(a, near.budget), Accepted(b, far.budget, func(l *Lane) bool { given <- l; return true })
		go func() { _ = next.Run() }()
		go func() { _ = there.Run() }()
		l, err := next.Open()
		if err != nil {
			t.Fatal(err)
		}
		if synctest.Wait(); l.Untaken() || len(given) != MaxLanes+1 {
			t.Errorf("the next trunk's lane is untaken: %v", l.Untaken())
		}
		next.Fail(io.ErrClosedPipe)
	})
}

// broken is a connection whose writes end at once: so many bytes are taken of the next one.
type broken struct {
	net.Conn
	takes int
	cut   bool
}

func (b *broken) Write(p []byte) (int, error) {
	if b.cut {
		return b.takes, os.ErrClosed
	}
	return b.Conn.Write(p)
}

// Of what the trunk had not begun to write as it broke nobody has read anything, be it the
// first on its lane or not.
func TestWhatWasNotWrittenIsUntaken(t *testing.T) {
	for _, takes := range []int{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			a, far := net.Pipe()
			near := &broken{Conn: a, takes: takes}
			tr := Dialed(near, NewBudget(MaxLanes, nil))
			go func() { _ = tr.Run() }()
			go func() { _, _ = io.Copy(io.Discard, far) }()
			var lanes []*Lane
			for range 3 {
				l, err := tr.Open()
				if err != nil {
					t.Fatal(err)
				}
				_, _ = l.Write([]byte("first"))
				lanes = append(lanes, l)
			}
			synctest.Wait()
			near.cut = true
			lanes[1].Begin()
			_, _ = lanes[1].Write([]byte("next"))
			lanes[2].Begin()
			synctest.Wait()
			if tr.failed() == nil {
				t.Fatal("it goes on")
			}
			for i, want := range []bool{false, takes == 0, true} {
				if got := lanes[i].Untaken(); got != want {
					t.Errorf("lane %d, of whose bytes %d were taken: untaken is %v", i, takes, got)
				}
			}
			_ = far.Close()
		})
	}
}

// deaf takes nothing that is written to it.
type deaf struct{ net.Conn }

func (deaf) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// What the socket has taken in part may have been read, though nothing of the rest is taken: it
// does not go again.
func TestWhatWasWrittenInPartIsNotUntaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer func() { _ = far.Close() }()
		tr := Dialed(deaf{near}, NewBudget(MaxLanes, nil))
		l, err := tr.Open() // which gives the writer its turn
		if err != nil {
			t.Fatal(err)
		}
		l.begins, tr.begun = 1, 1
		u, _ := tr.load() // as who writes without being the writer, of whose load the socket takes a part
		tr.owing, tr.rest = u, []byte("the rest")
		if err := tr.Run(); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("Run = %v, want %v", err, syscall.EPIPE)
		}
		if l.Untaken() {
			t.Error("what was written in part is said to be untaken, and would be done twice")
		}
	})
}

// A message that is here as a whole waits for no other one to be written, whatever the other
// end does: there is credit for it, and that is bound enough.
func TestWhatIsWholeWaitsForNobody(t *testing.T) {
	withRaw(t, false, func(r *raw) { // who reads nothing
		for range MaxLanes {
			l, err := r.Open()
			if err != nil {
				t.Fatal(err)
			}
			_ = l.SetWriteDeadline(time.Now().Add(time.Hour))
			began := time.Now()
			if n, err := l.Write(make([]byte, maxData)); n != maxData || err != nil || time.Since(began) != 0 {
				t.Fatalf("Write = %d, %v after %v", n, err, time.Since(began))
			}
		}
	})
}

// Where much waits to be written already nobody is given a lane: there are streams.
func TestNoLaneIsOpenedBehindAQueue(t *testing.T) {
	withRaw(t, false, func(r *raw) {
		s := NewSet(MaxLanes, nil)
		defer s.Close()
		s.way("b").trunk = r.Trunk
		r.says(kindPong, 0, nil)
		kept := s.Lane("b")
		if kept == nil || !kept.Fresh() {
			t.Fatal("there is none to begin with")
		}
		for range bulkQueue/maxData + 1 { // one is being written
			l, err := r.Open()
			if err != nil {
				t.Fatal(err)
			}
			_, _ = l.Write(make([]byte, maxData))
			synctest.Wait()
		}
		if l := s.Lane("b"); l != nil || kept.Fresh() {
			t.Errorf("a lane: %v; the one there is may be used: %v", l, kept.Fresh())
		}
		r.hears()
		synctest.Wait()
		if l := s.Lane("b"); l == nil || !kept.Fresh() {
			t.Errorf("a lane: %v once that has gone; the one there is may be used: %v", l, kept.Fresh())
		}
		if err := r.failed(); errors.Is(err, errFrame) {
			t.Error(err)
		}
	})
}
