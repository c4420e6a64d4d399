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

// withSessionPair runs f in a synctest bubble with both ends of a session.
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

// A reader that is always a little behind never empties the receive buffer of its stream. The
// buffer is limited to one window all the same.
func TestSlowReaderBuffersUpToOneWindow(t *testing.T) {
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
				most = max(most, cap(r.recv.data))
			}
			r.mu.Unlock()
		}
		if most > Window {
			t.Errorf("the receive buffer has %d KiB, the window is %d KiB", most>>10, Window>>10)
		}
	})
}

// A stream that is reset right after it was opened costs the peer work. It counts until the peer
// has closed it, too.
func TestStreamsResetAtOnceCountUntilPeerClosesThem(t *testing.T) {
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
			t.Errorf("OpenStream = %v while the server has %d open, want %v", err, len(given), ErrStreamLimit)
		}
		_ = (<-given).Close()
		synctest.Wait()
		if err := open(); err != nil {
			t.Errorf("OpenStream = %v after the server closed one", err)
		}
		if err := far.failureCause(); err != nil {
			t.Errorf("server: %v", err)
		}
	})
	withRawPeer(t, true, func(r *rawPeer) { // a peer that ignores the limit is refused
		r.accepted = make(chan *Stream, MaxStreams)
		r.startReading()
		for i := range uint32(MaxStreams) {
			r.send(frameOpen, i+1, nil)
			r.send(frameReset, i+1, nil)
		}
		if r.runErr != nil || len(r.accepted) != MaxStreams {
			t.Fatalf("%d streams were accepted, and Run = %v", len(r.accepted), r.runErr)
		}
		r.send(frameOpen, MaxStreams+1, nil)
		if n, _ := r.sent(frameRefuse); n != 1 || len(r.accepted) != MaxStreams {
			t.Errorf("%d streams were accepted after one more, and %d refused", len(r.accepted), n)
		}
	})
}

// At the stream limit, the open frame of a new stream does not overtake the close frame of the
// stream that it replaces.
func TestStreamLimitHoldsWhileStreamsAreReplaced(t *testing.T) {
	a, b := net.Pipe()
	near, far := NewClient(a, NewBudget(MaxStreams, nil)), NewServer(b, NewBudget(MaxStreams, nil), func(st *Stream) bool {
		go func() {
			_ = st.AwaitReadable()
			_ = st.Close()
		}()
		return true
	})
	var runs, all sync.WaitGroup
	runs.Go(func() { _ = near.Run() })
	runs.Go(func() { _ = far.Run() })
	streams := make(chan *Stream, MaxStreams)
	for range MaxStreams {
		st, err := near.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		streams <- st
	}
	for range 8 {
		all.Go(func() {
			for range 2_000 {
				select {
				case st := <-streams:
					_ = st.Close()
				default:
				}
				if st, err := near.OpenStream(); err == nil {
					streams <- st
				} else if !errors.Is(err, ErrStreamLimit) {
					return
				}
			}
		})
	}
	all.Wait()
	if err := far.failureCause(); err != nil {
		t.Errorf("server: %v", err)
	}
	near.Fail(net.ErrClosed)
	runs.Wait()
}

// The queue for a peer that does not read is limited, whatever streams are opened, written, reset
// and pinged.
func TestQueueForPeerThatDoesNotReadIsLimited(t *testing.T) {
	withRawPeer(t, false, func(r *rawPeer) {
		opened := 0
		for range 3 * MaxStreams { // clients that connect and leave
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
			t.Errorf("%d streams are opened, want %d", opened, MaxStreams)
		}
		r.Session.mu.Lock()
		defer r.Session.mu.Unlock()
		if n := len(r.queue) + len(r.urgentFrames); n > MaxStreams*(Window+8*headerLen) {
			t.Errorf("%d bytes are queued", n)
		}
		if n := len(r.urgentFrames); n > headerLen {
			t.Errorf("%d bytes of pings are queued", n)
		}
		if n := len(r.blockedStreams); n > MaxStreams {
			t.Errorf("%d streams wait for queue space, want at most %d", n, MaxStreams)
		}
	})
	for what, k := range map[string]frameType{"cut": frameReset, "closed": frameClose} {
		t.Run(what, func(t *testing.T) {
			withRawPeer(t, true, func(r *rawPeer) { // streams that the peer opened
				r.acceptStream = func(st *Stream) bool {
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
				if n := len(r.queue) + len(r.urgentFrames); n > 2*MaxStreams*headerLen || len(r.closingStreams) > MaxStreams || len(r.refusals) > MaxStreams {
					t.Errorf("%d bytes are queued, of %d streams and %d that are refused", n, len(r.closingStreams), len(r.refusals))
				}
			})
		})
	}
	withRawPeer(t, true, func(r *rawPeer) { // window updates do not accumulate
		r.acceptStream = func(st *Stream) bool { go func() { _, _ = io.Copy(io.Discard, st) }(); return true }
		r.send(frameOpen, 1, nil)
		r.send(framePing, 0, nil) // the writer blocks from here on
		for range 1_000 {
			r.send(frameData, 1, make([]byte, maxFrameData))
		}
		r.Session.mu.Lock()
		if n := len(r.windowUpdates); n != 1 || r.windowUpdates[0].pendingCredit != 1_000*maxFrameData || len(r.urgentFrames) != 0 {
			t.Errorf("%d window updates are queued, and %d bytes", n, len(r.urgentFrames))
		}
		r.Session.mu.Unlock()
		r.startReading()
		if n, b := r.sent(frameWindowUpdate); n != 1 || binary.BigEndian.Uint32(b) != 1_000*maxFrameData {
			t.Errorf("%d window updates of %x are sent, want one for all", n, b)
		}
	})
	withRawPeer(t, true, func(r *rawPeer) {
		for range 1_000 {
			r.send(framePing, 0, nil)
		}
		r.Session.mu.Lock()
		defer r.Session.mu.Unlock()
		if n := len(r.urgentFrames); n > headerLen {
			t.Errorf("%d bytes of pongs are queued", n)
		}
	})
}

// Ping sends at most one frame in each pingInterval.
func TestPingIsRateLimited(t *testing.T) {
	withRawPeer(t, false, func(r *rawPeer) {
		r.startReading()
		for range 100 {
			r.Ping()
			time.Sleep(pingInterval / 10)
		}
		if n, _ := r.sent(framePing); n != 10 {
			t.Errorf("%d pings in 10 times %v", n, pingInterval)
		}
	})
}

// The open frame of an unused stream is sent at once. Otherwise it would occupy queue space of
// other streams.
func TestOpenFrameIsSentWithoutData(t *testing.T) {
	withSessionPair(t, func(near, _ *Session, given chan *Stream) {
		for range MaxStreams {
			if _, err := near.OpenStream(); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if len(given) != MaxStreams {
			t.Errorf("the server has accepted %d streams, want %d", len(given), MaxStreams)
		}
	})
}

// A server whose accept function returns false refuses the stream. The client sees that nothing
// was read, and other streams continue.
func TestRejectedStreamIsRefused(t *testing.T) {
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
		var streams []*Stream
		for range 3 {
			st, err := near.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			_, _ = st.Write([]byte("x"))
			streams = append(streams, st)
		}
		synctest.Wait()
		if streams[0].Unprocessed() || !streams[1].Unprocessed() || streams[2].Unprocessed() {
			t.Errorf("unprocessed: %v, %v, %v, want only the second", streams[0].Unprocessed(), streams[1].Unprocessed(), streams[2].Unprocessed())
		}
		if n, err := streams[0].Write([]byte("goes on")); n != 7 || err != nil || !near.CanOpen() {
			t.Errorf("Write = %v on an accepted stream; CanOpen = %v", err, near.CanOpen())
		}
		for _, st := range append(streams, given...) {
			_ = st.Close()
		}
		synctest.Wait()
		if near.budget.InUse() != 0 || far.budget.InUse() != 0 {
			t.Errorf("%d and %d streams are in use at the end", near.budget.InUse(), far.budget.InUse())
		}
		near.Drain() // both ends end without streams
		runs.Wait()
	})
}

// A GOAWAY is valid once, for a stream that was opened, and must not revoke a stream that the
// server has answered.
func TestGoAwayIsValidated(t *testing.T) {
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
					t.Errorf("Run = %v, want no error: %v", r.runErr, tc.good)
				}
				if st.Unprocessed() != (what == "of less") {
					t.Errorf("unprocessed: %v", st.Unprocessed())
				}
			})
		})
	}
}

// A stream is released from its budget once, when this end has closed it. After a session failure
// it counts only in the topmost budget.
func TestBudgetIsReleasedOnClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := NewBudget(3, nil)
		part := NewBudget(2, NewBudget(3, all))
		var streams []*Stream
		for range 2 {
			near, far := net.Pipe()
			tr := NewClient(near, part)
			go func() { _ = tr.Run() }()
			st, err := tr.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			streams = append(streams, st)
			if part.InUse() != 1 || part.parent.InUse() != 1 {
				t.Errorf("%d and %d are in use", part.InUse(), part.parent.InUse())
			}
			_ = far.Close()
			synctest.Wait()
		}
		if part.InUse() != 0 || part.parent.InUse() != 0 || all.InUse() != 2 {
			t.Errorf("%d and %d of %d are in use before Close, want only the topmost", part.InUse(), part.parent.InUse(), all.InUse())
		}
		for _, st := range streams {
			_, _ = st.Close(), st.Close()
		}
		if part.InUse() != 0 || all.InUse() != 0 {
			t.Errorf("%d of %d are in use at the end", part.InUse(), all.InUse())
		}
		_, _ = all.acquire(1), all.acquire(1) // used by other nodes: one stream is left
		for _, want := range []bool{true, false, false} {
			if got := part.acquire(1); got != want || part.InUse() != 1 {
				t.Errorf("acquired: %v, %d in all, want %v", got, part.InUse(), want)
			}
		}
	})
}

// The GOAWAY includes a stream that accept then rejects. The stream is refused nevertheless.
func TestStreamIncludedInGoAwayCanBeRefused(t *testing.T) {
	withRawPeer(t, true, func(r *rawPeer) {
		r.startReading()
		r.acceptStream = func(*Stream) bool {
			r.GoAway(0)
			return false
		}
		r.send(frameOpen, 1, nil)
		if n, _ := r.sent(frameRefuse); n != 1 {
			t.Errorf("%d refusals, want one", n)
		}
		if n, _ := r.sent(frameGoAway); n != 1 || r.sentFrames[0].stream != 1 {
			t.Errorf("%d GOAWAY frames: %v", n, r.sentFrames)
		}
	})
}
