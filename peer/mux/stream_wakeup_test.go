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

// Whoever waits on a lane learns of what ends that, whichever end it comes from.
func TestWhoWaitsIsWokenByWhatEndsThat(t *testing.T) {
	read := func(st *mux.Stream) error { _, err := st.Read(make([]byte, 1)); return err }
	write := func(st *mux.Stream) error { _, err := st.Write(make([]byte, 2*mux.Window)); return err }
	for what, tc := range map[string]struct {
		waits func(st *mux.Stream) error
		ends  func(near, far *mux.Stream)
		want  error
	}{
		"a reader by the end":             {read, func(_, far *mux.Stream) { _ = far.CloseWrite() }, io.EOF},
		"a reader by the far close":       {read, func(_, far *mux.Stream) { _ = far.Close() }, io.EOF},
		"a reader by a cut":               {read, func(_, far *mux.Stream) { _ = far.SetLinger(0); _ = far.Close() }, syscall.ECONNRESET},
		"a reader by its own close":       {read, func(near, _ *mux.Stream) { _ = near.Close() }, net.ErrClosed},
		"a reader by its deadline":        {read, func(near, _ *mux.Stream) { _ = near.SetDeadline(time.Unix(1, 0)) }, os.ErrDeadlineExceeded},
		"who awaits the end":              {(*mux.Stream).Await, func(_, far *mux.Stream) { _ = far.CloseWrite() }, io.EOF},
		"a writer by the far close":       {write, func(_, far *mux.Stream) { _ = far.Close() }, syscall.EPIPE},
		"a writer by a cut":               {write, func(_, far *mux.Stream) { _ = far.SetLinger(0); _ = far.Close() }, syscall.ECONNRESET},
		"a writer by its own close":       {write, func(near, _ *mux.Stream) { _ = near.Close() }, net.ErrClosed},
		"a writer by its deadline":        {write, func(near, _ *mux.Stream) { _ = near.SetDeadline(time.Unix(1, 0)) }, os.ErrDeadlineExceeded},
		"a writer by its write deadline":  {write, func(near, _ *mux.Stream) { _ = near.SetWriteDeadline(time.Unix(1, 0)) }, os.ErrDeadlineExceeded},
		"a reader by a trunk that breaks": {read, func(near, _ *mux.Stream) { near.FailSession(errTestOver) }, errTestOver},
		"a writer by a trunk that breaks": {write, func(near, _ *mux.Stream) { near.FailSession(errTestOver) }, errTestOver},
	} {
		t.Run(what, func(t *testing.T) {
			withSessionPair(t, func(w *sessionPair) {
				near, far := w.openStream()
				woken := make(chan error, 1)
				go func() { woken <- tc.waits(near) }()
				synctest.Wait()
				if len(woken) != 0 {
					t.Fatalf("it does not wait: %v", <-woken)
				}
				tc.ends(near, far)
				synctest.Wait()
				select {
				case err := <-woken:
					if !errors.Is(err, tc.want) {
						t.Errorf("it ends with %v, want %v", err, tc.want)
					}
				default:
					t.Error("it still waits")
					w.client.Fail(errTestOver)
				}
			})
		})
	}
}

// A cut counts though the end was said before: what has not been read is not whole.
func TestACutBehindTheEndIsACut(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		near, far := w.openStream()
		_ = near.CloseWrite()
		synctest.Wait()
		_ = near.SetLinger(0)
		_ = near.Close()
		synctest.Wait()
		w.expectError(far, syscall.ECONNRESET)
		if far.Unprocessed() {
			t.Error("what was cut counts as not taken")
		}
	})
}

func TestALaneThatIsClosedHereBringsNothing(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		near, far := w.openStream()
		if n, err := near.Read(nil); n != 0 || err != nil {
			t.Errorf("Read of nothing = %d, %v", n, err)
		}
		w.write(far, "not read")
		synctest.Wait()
		if near.Quiet() {
			t.Error("a lane with bytes to read is quiet")
		}
		if err := near.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		w.expectError(near, net.ErrClosed)
		if near.Quiet() {
			t.Error("a closed lane is quiet")
		}
		if err := near.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Close again = %v, want %v", err, net.ErrClosed)
		}
	})
}

// Who asks late is told as well, and who does not want to know any more is not.
func TestWhoHasLeftIsToldOnceAndToWhoStillAsks(t *testing.T) {
	for what, leave := range map[string]func(near, far *mux.Stream){
		"its end":       func(near, _ *mux.Stream) { _ = near.CloseWrite() },
		"its cut":       func(near, _ *mux.Stream) { _ = near.SetLinger(0); _ = near.Close() },
		"its own close": func(_, far *mux.Stream) { _ = far.Close() },
	} {
		t.Run(what, func(t *testing.T) {
			withSessionPair(t, func(w *sessionPair) {
				near, far := w.openStream()
				told := make(chan string, 8)
				stop := far.WatchGone(func() { told <- "who stopped" })
				if !stop() {
					t.Error("told before anything happened")
				}
				leave(near, far)
				synctest.Wait()
				stop = far.WatchGone(func() { told <- "late" })
				synctest.Wait()
				if len(told) != 1 || <-told != "late" || stop() {
					t.Error("want that only who asked late is told")
				}

				near, far = w.openStream()
				stop = far.WatchGone(func() { told <- "early" })
				leave(near, far)
				synctest.Wait()
				if len(told) != 1 || stop() {
					t.Errorf("told %d times", len(told))
				}
			})
		})
	}
}

// A deadline that is set anew counts from then.
func TestADeadlineIsSetAnew(t *testing.T) {
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
		w.expectError(near, os.ErrDeadlineExceeded) // though there is something
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

// Only a linger of zero has Close cut.
func TestALingerThatIsNotZeroDoesNotCut(t *testing.T) {
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

// The last word is waited for no longer than it takes, and said once.
func TestTheLastWordIsWaitedForUntilItIsWritten(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		near, far := w.openStream()
		began := time.Now()
		w.server.GoAway(time.Minute)
		w.server.GoAway(time.Minute)
		if took := time.Since(began); took != 0 {
			t.Errorf("Last returns after %v", took)
		}
		w.write(near, "goes on")
		w.expect(far, "goes on")
	})
}
