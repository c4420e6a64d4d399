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

// A stream that one end has closed is free there before the other end can know. Without a refusal,
// the next stream on another session would exceed the budget and fail that session with all its
// streams.
func TestStreamBeyondBudgetIsRefusedAlone(t *testing.T) {
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
			t.Errorf("unprocessed: %v and %v, want only the one beyond the limit; CanOpen: %v", beyond.Unprocessed(), taken.Unprocessed(), near.CanOpen())
		}
		_ = beyond.Close()
		_ = taken.Close()
		_ = (<-given).Close()
		synctest.Wait()
		if st, err := near.OpenStream(); err != nil {
			t.Error(err)
		} else if synctest.Wait(); st.Unprocessed() || len(given) != 1 {
			t.Errorf("%d streams were accepted after Close", len(given))
		}
	})
}

// A client that replaces a failed session opens streams on the next one, while the server still
// works on those of the first. They must not use up the budget.
func TestFailedSessionFreesBudgetForNextSession(t *testing.T) {
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
			t.Fatalf("%d streams were accepted", len(given))
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
			t.Errorf("the stream of the next session is unprocessed: %v", st.Unprocessed())
		}
		next.Fail(io.ErrClosedPipe)
	})
}

// failingConn is a connection whose writes fail once fails is set, after accepting some bytes.
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

// A message of which no byte was written when the session failed is unprocessed, also if it is not
// the first on its stream.
func TestUnwrittenMessageIsUnprocessed(t *testing.T) {
	for _, takes := range []int{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			a, far := net.Pipe()
			near := &failingConn{Conn: a, accepts: takes}
			tr := NewClient(near, NewBudget(MaxStreams, nil))
			go func() { _ = tr.Run() }()
			go func() { _, _ = io.Copy(io.Discard, far) }()
			var streams []*Stream
			for range 3 {
				st, err := tr.OpenStream()
				if err != nil {
					t.Fatal(err)
				}
				_, _ = st.Write([]byte("first"))
				streams = append(streams, st)
			}
			synctest.Wait()
			near.fails = true
			streams[1].BeginMessage()
			_, _ = streams[1].Write([]byte("next"))
			streams[2].BeginMessage()
			synctest.Wait()
			if tr.failureCause() == nil {
				t.Fatal("the session has not failed")
			}
			for i, want := range []bool{false, takes == 0, true} {
				if got := streams[i].Unprocessed(); got != want {
					t.Errorf("stream %d, with %d bytes accepted: Unprocessed = %v", i, takes, got)
				}
			}
			_ = far.Close()
		})
	}
}

// unwritableConn is a connection whose writes fail.
type unwritableConn struct{ net.Conn }

func (unwritableConn) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// A message of which the socket has accepted a part may have been read. It must not be sent again,
// although the rest was not accepted.
func TestPartlyWrittenMessageIsNotUnprocessed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer func() { _ = far.Close() }()
		tr := NewClient(unwritableConn{near}, NewBudget(MaxStreams, nil))
		st, err := tr.OpenStream() // signals the writer
		if err != nil {
			t.Fatal(err)
		}
		st.firstBatch, tr.batchedID = 1, 1
		batch, _ := tr.nextBatch() // as writeInline does when the socket accepts a part of the batch
		tr.partialBatch, tr.unsent = batch, []byte("the rest")
		if err := tr.Run(); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("Run = %v, want %v", err, syscall.EPIPE)
		}
		if st.Unprocessed() {
			t.Error("a partly written message is unprocessed, so it would be sent twice")
		}
	})
}

// A message of one frame never waits for the queue, whatever the peer does: its credit is limit
// enough.
func TestMessageOfOneFrameIsQueuedAtOnce(t *testing.T) {
	withRawPeer(t, false, func(r *rawPeer) { // the peer does not read
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

// A set opens no stream on a session with a long queue, because the caller can use a connection of
// its own.
func TestNoStreamIsOpenedBehindLongQueue(t *testing.T) {
	withRawPeer(t, false, func(r *rawPeer) {
		ss := NewSessionSet(MaxStreams, nil)
		defer ss.Close()
		ss.destinationLocked("b").session = r.Session
		r.send(framePong, 0, nil)
		kept := ss.OpenStream("b")
		if kept == nil || !kept.Responsive() {
			t.Fatal("no stream at first")
		}
		for range bulkQueueLimit/maxFrameData + 1 { // one frame more, because one is being written
			st, err := r.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			_, _ = st.Write(make([]byte, maxFrameData))
			synctest.Wait()
		}
		if st := ss.OpenStream("b"); st != nil || kept.Responsive() {
			t.Errorf("a stream: %v; Responsive = %v", st, kept.Responsive())
		}
		r.startReading()
		synctest.Wait()
		if st := ss.OpenStream("b"); st == nil || !kept.Responsive() {
			t.Errorf("a stream: %v after the queue was written; Responsive = %v", st, kept.Responsive())
		}
		if err := r.failureCause(); errors.Is(err, errProtocol) {
			t.Error(err)
		}
	})
}
