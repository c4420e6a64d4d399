package mux_test

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"shardway/peer/mux"
)

// A blocked Read, Write or AwaitReadable returns when either end closes, resets or fails the stream.
func TestBlockedCallsAreWoken(t *testing.T) {
	read := func(st *mux.Stream) error { _, err := st.Read(make([]byte, 1)); return err }
	write := func(st *mux.Stream) error { _, err := st.Write(make([]byte, 2*mux.Window)); return err }
	for what, tc := range map[string]struct {
		waits func(st *mux.Stream) error
		ends  func(near, far *mux.Stream)
		want  error
	}{
		"a reader by the end":               {read, func(_, far *mux.Stream) { _ = far.CloseWrite() }, io.EOF},
		"a reader by the far close":         {read, func(_, far *mux.Stream) { _ = far.Close() }, io.EOF},
		"a reader by a cut":                 {read, func(_, far *mux.Stream) { _ = far.SetLinger(0); _ = far.Close() }, syscall.ECONNRESET},
		"a reader by its own close":         {read, func(near, _ *mux.Stream) { _ = near.Close() }, net.ErrClosed},
		"a reader by its deadline":          {read, func(near, _ *mux.Stream) { _ = near.SetDeadline(time.Unix(1, 0)) }, os.ErrDeadlineExceeded},
		"who awaits the end":                {(*mux.Stream).AwaitReadable, func(_, far *mux.Stream) { _ = far.CloseWrite() }, io.EOF},
		"a writer by the far close":         {write, func(_, far *mux.Stream) { _ = far.Close() }, syscall.EPIPE},
		"a writer by a cut":                 {write, func(_, far *mux.Stream) { _ = far.SetLinger(0); _ = far.Close() }, syscall.ECONNRESET},
		"a writer by its own close":         {write, func(near, _ *mux.Stream) { _ = near.Close() }, net.ErrClosed},
		"a writer by its deadline":          {write, func(near, _ *mux.Stream) { _ = near.SetDeadline(time.Unix(1, 0)) }, os.ErrDeadlineExceeded},
		"a writer by its write deadline":    {write, func(near, _ *mux.Stream) { _ = near.SetWriteDeadline(time.Unix(1, 0)) }, os.ErrDeadlineExceeded},
		"a reader by a session that breaks": {read, func(near, _ *mux.Stream) { near.FailSession(errTestOver) }, errTestOver},
		"a writer by a session that breaks": {write, func(near, _ *mux.Stream) { near.FailSession(errTestOver) }, errTestOver},
	} {
		t.Run(what, func(t *testing.T) {
			withSessionPair(t, func(w *sessionPair) {
				near, far := w.openStream()
				woken := make(chan error, 1)
				go func() { woken <- tc.waits(near) }()
				synctest.Wait()
				if len(woken) != 0 {
					t.Fatalf("the call did not block: %v", <-woken)
				}
				tc.ends(near, far)
				synctest.Wait()
				select {
				case err := <-woken:
					if !errors.Is(err, tc.want) {
						t.Errorf("error = %v, want %v", err, tc.want)
					}
				default:
					t.Error("the call still blocks")
					w.client.Fail(errTestOver)
				}
			})
		})
	}
}

// A reset counts even if the peer has ended its direction before: unread data is not complete.
func TestResetAfterEndIsReset(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		near, far := w.openStream()
		_ = near.CloseWrite()
		synctest.Wait()
		_ = near.SetLinger(0)
		_ = near.Close()
		synctest.Wait()
		w.expectError(far, syscall.ECONNRESET)
		if far.Unprocessed() {
			t.Error("a reset stream is unprocessed")
		}
	})
}

func TestLocallyClosedStreamReadsNothing(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		near, far := w.openStream()
		if n, err := near.Read(nil); n != 0 || err != nil {
			t.Errorf("Read of nothing = %d, %v", n, err)
		}
		w.write(far, "not read")
		synctest.Wait()
		if near.WouldBlock() {
			t.Error("a stream with bytes to read is quiet")
		}
		if err := near.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		w.expectError(near, net.ErrClosed)
		if near.WouldBlock() {
			t.Error("a closed stream is quiet")
		}
		if err := near.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Close again = %v, want %v", err, net.ErrClosed)
		}
	})
}

// A late WatchDisconnect is called, too. A stopped one is not.
func TestWatchGoneCallsOnlyActiveWatcher(t *testing.T) {
	for what, leave := range map[string]func(near, far *mux.Stream){
		"its end":       func(near, _ *mux.Stream) { _ = near.CloseWrite() },
		"its cut":       func(near, _ *mux.Stream) { _ = near.SetLinger(0); _ = near.Close() },
		"its own close": func(_, far *mux.Stream) { _ = far.Close() },
	} {
		t.Run(what, func(t *testing.T) {
			withSessionPair(t, func(w *sessionPair) {
				near, far := w.openStream()
				told := make(chan string, 8)
				stop := far.WatchDisconnect(func() { told <- "stopped" })
				if !stop() {
					t.Error("called before anything happened")
				}
				leave(near, far)
				synctest.Wait()
				stop = far.WatchDisconnect(func() { told <- "late" })
				synctest.Wait()
				if len(told) != 1 || <-told != "late" || stop() {
					t.Error("want only the late watcher called")
				}

				near, far = w.openStream()
				stop = far.WatchDisconnect(func() { told <- "early" })
				leave(near, far)
				synctest.Wait()
				if len(told) != 1 || stop() {
					t.Errorf("called %d times", len(told))
				}
			})
		})
	}
}

func TestDeadlineCanBeMoved(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		near, far := w.openStream()
		began := time.Now()
		_ = near.SetReadDeadline(began.Add(time.Second))
		_ = near.SetReadDeadline(began.Add(time.Minute))
		w.expectError(near, os.ErrDeadlineExceeded)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("the read ended after %v", took)
		}
		w.write(far, "late")
		synctest.Wait()
		w.expectError(near, os.ErrDeadlineExceeded) // although there is data
		_ = near.SetReadDeadline(time.Time{})
		w.expect(near, "late")
		began = time.Now()
		_ = near.SetReadDeadline(began.Add(time.Hour))
		_ = near.SetReadDeadline(began.Add(time.Second))
		w.expectError(near, os.ErrDeadlineExceeded)
		if took := time.Since(began); took != time.Second {
			t.Errorf("the read ended after %v", took)
		}
	})
}

func TestNonZeroLingerDoesNotReset(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		near, far := w.openStream()
		_ = near.SetLinger(0)
		_ = near.SetLinger(-1)
		w.write(near, "all")
		_ = near.Close()
		w.expect(far, "all")
		w.expectError(far, io.EOF)
	})
}

// GoAway returns as soon as the frame is written, and sends it once.
func TestGoAwayReturnsWhenWritten(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		near, far := w.openStream()
		began := time.Now()
		w.server.GoAway(time.Minute)
		w.server.GoAway(time.Minute)
		if took := time.Since(began); took != 0 {
			t.Errorf("GoAway returned after %v", took)
		}
		w.write(near, "goes on")
		w.expect(far, "goes on")
	})
}
