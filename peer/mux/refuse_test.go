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
	withSessionPair(t, func(near, far *Session, given chan *Stream) {
		far.budget.limit = 1
		taken, err := near.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		beyond, err := near.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = beyond.Write([]byte("x"))
		synctest.Wait()
		if !beyond.Unprocessed() || taken.Unprocessed() || !near.CanOpen() {
			t.Errorf("untaken: %v and %v, want the one beyond; the trunk takes lanes: %v", beyond.Unprocessed(), taken.Unprocessed(), near.CanOpen())
		}
		_ = beyond.Close()
		_ = taken.Close()
		_ = (<-given).Close()
		synctest.Wait()
		if st, err := near.OpenStream(); err != nil {
			t.Error(err)
		} else if synctest.Wait(); st.Unprocessed() || len(given) != 1 {
			t.Errorf("%d lanes are given once there is room", len(given))
		}
	})
}

// Who had given up a trunk opened lanes by the next one, and the other end, that still worked
// on those of the first, ended each trunk with its first lane.
func TestABrokenTrunkLeavesItsLanesToTheNext(t *testing.T) {
	withSessionPair(t, func(near, far *Session, given chan *Stream) {
		for range MaxStreams {
			st, err := near.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = st.Close() }()
		}
		synctest.Wait()
		if len(given) != MaxStreams || far.budget.InUse() != MaxStreams {
			t.Fatalf("%d lanes are given", len(given))
		}
		near.Fail(io.ErrClosedPipe)
		synctest.Wait()
		a, b := net.Pipe()
		next, there := NewClient(a, near.budget), NewServer(b, far.budget, func(st *Stream) bool { given <- st; return true })
		go func() { _ = next.Run() }()
		go func() { _ = there.Run() }()
		st, err := next.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		if synctest.Wait(); st.Unprocessed() || len(given) != MaxStreams+1 {
			t.Errorf("the next trunk's lane is untaken: %v", st.Unprocessed())
		}
		next.Fail(io.ErrClosedPipe)
	})
}

// broken is a connection whose writes end at once: so many bytes are taken of the next one.
type failingConn struct {
	net.Conn
	accepts int
	fails   bool
}

func (b *failingConn) Write(p []byte) (int, error) {
	if b.fails {
		return b.accepts, os.ErrClosed
	}
	return b.Conn.Write(p)
}

// Of what the trunk had not begun to write as it broke nobody has read anything, be it the
// first on its lane or not.
func TestWhatWasNotWrittenIsUntaken(t *testing.T) {
	for _, takes := range []int{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			a, far := net.Pipe()
			near := &failingConn{Conn: a, accepts: takes}
			tr := NewClient(near, NewBudget(MaxStreams, nil))
			go func() { _ = tr.Run() }()
			go func() { _, _ = io.Copy(io.Discard, far) }()
			var lanes []*Stream
			for range 3 {
				st, err := tr.OpenStream()
				if err != nil {
					t.Fatal(err)
				}
				_, _ = st.Write([]byte("first"))
				lanes = append(lanes, st)
			}
			synctest.Wait()
			near.fails = true
			lanes[1].BeginMessage()
			_, _ = lanes[1].Write([]byte("next"))
			lanes[2].BeginMessage()
			synctest.Wait()
			if tr.failure() == nil {
				t.Fatal("it goes on")
			}
			for i, want := range []bool{false, takes == 0, true} {
				if got := lanes[i].Unprocessed(); got != want {
					t.Errorf("lane %d, of whose bytes %d were taken: untaken is %v", i, takes, got)
				}
			}
			_ = far.Close()
		})
	}
}

// deaf takes nothing that is written to it.
type unwritableConn struct{ net.Conn }

func (unwritableConn) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// What the socket has taken in part may have been read, though nothing of the rest is taken: it
// does not go again.
func TestWhatWasWrittenInPartIsNotUntaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer func() { _ = far.Close() }()
		tr := NewClient(unwritableConn{near}, NewBudget(MaxStreams, nil))
		st, err := tr.OpenStream() // which gives the writer its turn
		if err != nil {
			t.Fatal(err)
		}
		st.firstBatch, tr.batchedID = 1, 1
		batch, _ := tr.nextBatch() // as who writes without being the writer, of whose load the socket takes a part
		tr.partial, tr.unsent = batch, []byte("the rest")
		if err := tr.Run(); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("Run = %v, want %v", err, syscall.EPIPE)
		}
		if st.Unprocessed() {
			t.Error("what was written in part is said to be untaken, and would be done twice")
		}
	})
}

// A message that is here as a whole waits for no other one to be written, whatever the other
// end does: there is credit for it, and that is bound enough.
func TestWhatIsWholeWaitsForNobody(t *testing.T) {
	withRawPeer(t, false, func(r *rawPeer) { // who reads nothing
		for range MaxStreams {
			st, err := r.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			_ = st.SetWriteDeadline(time.Now().Add(time.Hour))
			began := time.Now()
			if n, err := st.Write(make([]byte, maxFrameData)); n != maxFrameData || err != nil || time.Since(began) != 0 {
				t.Fatalf("Write = %d, %v after %v", n, err, time.Since(began))
			}
		}
	})
}

// Where much waits to be written already nobody is given a lane: there are streams.
func TestNoLaneIsOpenedBehindAQueue(t *testing.T) {
	withRawPeer(t, false, func(r *rawPeer) {
		ss := NewSessionSet(MaxStreams, nil)
		defer ss.Close()
		ss.destinationLocked("b").session = r.Session
		r.send(framePong, 0, nil)
		kept := ss.OpenStream("b")
		if kept == nil || !kept.Responsive() {
			t.Fatal("there is none to begin with")
		}
		for range bulkQueueLimit/maxFrameData + 1 { // one is being written
			st, err := r.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			_, _ = st.Write(make([]byte, maxFrameData))
			synctest.Wait()
		}
		if st := ss.OpenStream("b"); st != nil || kept.Responsive() {
			t.Errorf("a lane: %v; the one there is may be used: %v", st, kept.Responsive())
		}
		r.startReading()
		synctest.Wait()
		if st := ss.OpenStream("b"); st == nil || !kept.Responsive() {
			t.Errorf("a lane: %v once that has gone; the one there is may be used: %v", st, kept.Responsive())
		}
		if err := r.failure(); errors.Is(err, errProtocol) {
			t.Error(err)
		}
	})
}
