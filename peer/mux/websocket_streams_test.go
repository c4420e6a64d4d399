package mux

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// All callers of OpenStreamWait get streams of the one session that is being connected. None waits
// longer than its context allows, or if no Connect is running.
func TestOpenStreamWaitUsesSessionBeingConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &setFixture{t: t, serve: serveAndDiscard}
		const slow = 100 * time.Millisecond
		e.SessionSet = NewSessionSet(MaxWebSocketStreams, func(ctx context.Context, place string) (net.Conn, error) {
			time.Sleep(slow)
			return e.dial(ctx, place)
		})
		defer e.Close()
		asks := func(within time.Duration) (st *Stream, took time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			began := time.Now()
			st = e.OpenStreamWait(ctx, "far")
			return st, time.Since(began)
		}
		const many = 2 * MaxStreams
		given := make(chan *Stream, many)
		for range many {
			go func() {
				st, _ := asks(time.Second)
				given <- st
			}()
		}
		synctest.Wait()
		if st, took := asks(slow / 2); st != nil || took != slow/2 {
			t.Errorf("stream opened: %v after %v, want none after %v", st != nil, took, slow/2)
		}
		for range many {
			if st := <-given; st == nil || st.SessionConn() != e.destinationLocked("far").session.conn {
				t.Fatal("a waiting caller got no stream, or one of another session")
			}
		}
		e.want("who waits", nil, false, 1)
		e.destinationLocked("far").session.Fail(net.ErrClosed)
		synctest.Wait()
		if st, took := asks(time.Second); st != nil || took != 0 {
			t.Errorf("stream opened: %v after %v, just after a dial", st != nil, took)
		}
	})
}

// With many streams, many may be refused at once, and the session does not fail.
func TestManyWebSocketStreamsCanBeRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		given := 0
		r := newSession(near, NewBudget(MaxWebSocketStreams, NewBudget(1, nil)), func(*Stream) bool { given++; return true })
		ended := make(chan error, 1)
		go func() { ended <- r.Run() }()
		var b []byte
		for i := range 4 * MaxStreams {
			b = appendFrame(b, frameOpen, uint32(i+1), nil)
		}
		_, _ = far.Write(b) // without reading
		synctest.Wait()
		if err := r.failureCause(); err != nil || given != 1 {
			t.Errorf("%d streams were accepted, and Run = %v", given, err)
		}
		_ = far.Close()
		if err := <-ended; err == nil {
			t.Error("Run = nil")
		}
	})
}

// WebSocket streams wait for queue space at either end: they are too many for their credit to
// limit the queue.
func TestQueueOfWebSocketStreamsIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe() // the peer does not read
		r := newSession(near, NewBudget(MaxWebSocketStreams, nil), nil)
		ended := make(chan error, 1)
		go func() { ended <- r.Run() }()
		const many = 4 * queueLimit / maxFrameData
		for range many {
			st, err := r.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the first frame is being written, and all others are queued
			go func() { _, _ = st.Write(make([]byte, maxFrameData)) }()
		}
		synctest.Wait()
		r.mu.Lock()
		waiting := len(r.queue)
		r.mu.Unlock()
		if waiting > queueLimit+many*headerLen+headerLen {
			t.Errorf("%d bytes are queued, want at most %d", waiting, queueLimit)
		}
		_ = far.Close()
		if err := <-ended; err == nil {
			t.Error("Run = nil")
		}
		synctest.Wait()
	})
}
