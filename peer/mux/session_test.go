package mux_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"shardway/peer/mux"
)

func TestEveryLaneCarriesItsOwnBytesBothWays(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		var all sync.WaitGroup
		for i := range 50 {
			near, far := w.openStream()
			text := bytes.Repeat([]byte{byte(i)}, 1+rand.IntN(5*mux.Window))
			for _, way := range [][2]*mux.Stream{{near, far}, {far, near}} {
				all.Go(func() {
					for rest := text; len(rest) > 0; {
						n := min(len(rest), 1+rand.IntN(40<<10))
						if _, err := way[0].Write(rest[:n]); err != nil {
							t.Errorf("lane %d: %v", i, err)
						}
						rest = rest[n:]
					}
					_ = way[0].CloseWrite()
				})
				all.Go(func() {
					if got, err := io.ReadAll(way[1]); err != nil || !bytes.Equal(got, text) {
						t.Errorf("lane %d: %d bytes, %v, want its own %d", i, len(got), err, len(text))
					}
				})
			}
		}
		all.Wait()
	})
}

// A reader that takes nothing is its own lane's affair.
func TestALaneThatNobodyReadsHoldsUpNoOther(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		stuck, unread := w.openStream()
		var sent atomic.Int64
		go func() {
			n, err := stuck.Write(make([]byte, 10*mux.Window))
			sent.Store(int64(n))
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("Write = %v, want %v", err, net.ErrClosed)
			}
		}()
		near, far := w.openStream()
		asks, answers := strings.Repeat("asks", 300), strings.Repeat("answers", 300)
		for range mux.Window / 300 {
			w.write(near, asks)
			w.expect(far, asks)
			w.write(far, answers)
			w.expect(near, answers)
		}
		synctest.Wait()
		_ = stuck.Close()
		synctest.Wait()
		if n := sent.Load(); n > mux.Window {
			t.Errorf("%d bytes were sent that nobody has read, want %d at most", n, mux.Window)
		}
		if n, err := io.Copy(io.Discard, unread); n != sent.Load() || err != nil {
			t.Errorf("read %d bytes, %v, of %d", n, err, sent.Load())
		}
	})
}

func TestWhatIsCutDoesNotEnd(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		near, far := w.openStream()
		w.write(near, "half of")
		synctest.Wait() // what has not left is not sent any more
		_ = near.SetLinger(0)
		_ = near.Close()
		synctest.Wait()
		w.expect(far, "half of")
		w.expectError(far, syscall.ECONNRESET)
		if _, err := far.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Write to one that was cut = %v", err)
		}
		if _, err := near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Write after Close = %v", err)
		}
		w.expectError(near, net.ErrClosed)
	})
}

func TestWhatIsClosedEndsBehindItsLastByte(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		near, far := w.openStream()
		w.write(near, "all")
		_ = near.Close()
		w.expect(far, "all")
		w.expectError(far, io.EOF)
		if _, err := far.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("Write to one that reads no more = %v", err)
		}
	})
}

func TestHalfOfALaneGoesOn(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		near, far := w.openStream()
		w.write(near, "asks")
		_ = near.CloseWrite()
		w.expect(far, "asks")
		w.expectError(far, io.EOF)
		w.write(far, "answers")
		w.expect(near, "answers")
		if _, err := near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Write after CloseWrite = %v", err)
		}
	})
}

// What broke off with the trunk may have been whole: that is read first.
func TestABrokenTrunkBreaksEveryLaneBehindWhatHasCome(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		near, far := w.openStream()
		waits, _ := w.openStream()
		var broke error
		go func() { _, broke = waits.Read(make([]byte, 1)) }()
		w.write(far, "whole")
		synctest.Wait()
		why := errors.New("cut")
		w.client.Fail(why)
		w.expect(near, "whole")
		w.expectError(near, why)
		synctest.Wait()
		if !errors.Is(broke, why) {
			t.Errorf("a waiting read ends with %v, want %v", broke, why)
		}
		if _, err := near.Write([]byte("x")); !errors.Is(err, why) {
			t.Errorf("Write = %v, want %v", err, why)
		}
		if _, err := w.client.OpenStream(); !errors.Is(err, why) {
			t.Errorf("Open = %v, want %v", err, why)
		}
		if w.expectError(far, io.ErrUnexpectedEOF); !errors.Is(w.clientErr, why) || !errors.Is(w.serverErr, io.ErrUnexpectedEOF) {
			t.Errorf("Run = %v and %v", w.clientErr, w.serverErr)
		}
	})
}

func TestDeadlinesEndReadsAndWrites(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		near, far := w.openStream()
		began := time.Now()
		_ = near.SetReadDeadline(began.Add(time.Second))
		w.expectError(near, os.ErrDeadlineExceeded)
		if took := time.Since(began); took != time.Second {
			t.Errorf("the read ended after %v", took)
		}
		_ = near.SetReadDeadline(time.Now().Add(time.Second))
		_ = near.SetReadDeadline(time.Time{})
		time.AfterFunc(time.Minute, func() { w.write(far, "late") })
		w.expect(near, "late")

		_ = near.SetWriteDeadline(time.Now().Add(time.Second))
		began = time.Now()
		if n, err := near.Write(make([]byte, 2*mux.Window)); n > mux.Window || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Write = %d, %v", n, err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("the write ended after %v", took)
		}
		time.AfterFunc(time.Minute, func() { _ = far.SetDeadline(time.Unix(1, 0)) })
		for {
			if _, err := far.Read(make([]byte, 1<<10)); err != nil {
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("Read = %v", err)
				}
				return
			}
		}
	})
}

func TestWhoLeavesIsNoticed(t *testing.T) {
	for what, leave := range map[string]func(w *sessionPair, near *mux.Stream){
		"its end":   func(_ *sessionPair, near *mux.Stream) { _ = near.CloseWrite() },
		"its close": func(_ *sessionPair, near *mux.Stream) { _ = near.Close() },
		"the trunk": func(w *sessionPair, _ *mux.Stream) { w.client.Fail(errTestOver) },
	} {
		t.Run(what, func(t *testing.T) {
			withSessionPair(t, func(w *sessionPair) {
				near, far := w.openStream()
				if !far.Quiet() {
					t.Error("a lane on which nothing is said is not quiet")
				}
				var told atomic.Int32
				if stop := far.WatchGone(func() { told.Add(1) }); !stop() {
					t.Error("told before anything happened")
				}
				stop := far.WatchGone(func() { told.Add(1) })
				leave(w, near)
				synctest.Wait()
				if told.Load() != 1 || stop() || far.Quiet() {
					t.Errorf("told %d times", told.Load())
				}
			})
		})
	}
}

func TestARetiredTrunkEndsWithItsLastLane(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		near, far := w.openStream()
		w.client.Drain()
		if _, err := w.client.OpenStream(); !errors.Is(err, mux.ErrDraining) {
			t.Errorf("Open = %v", err)
		}
		w.write(near, "goes on")
		w.expect(far, "goes on")
		_ = near.Close()
		synctest.Wait()
		if !errors.Is(w.clientErr, mux.ErrDraining) || w.serverErr == nil {
			t.Errorf("Run = %v and %v", w.clientErr, w.serverErr)
		}
	})
}

func TestLanesAreBounded(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		var last *mux.Stream
		for range mux.MaxStreams {
			var err error
			if last, err = w.client.OpenStream(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.client.OpenStream(); !errors.Is(err, mux.ErrStreamLimit) {
			t.Errorf("Open = %v, want %v", err, mux.ErrStreamLimit)
		}
		_ = last.Close()
		synctest.Wait()
		for range mux.MaxStreams {
			last = <-w.accepted
		}
		_ = last.Close()
		synctest.Wait()
		near, err := w.client.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		w.write(near, "x")
		synctest.Wait()
		if w.serverErr != nil {
			t.Errorf("the other end refuses what is within its bound: %v", w.serverErr)
		}
	})
}

// A lane that is cut before anything of it has left costs no other lane anything: the other
// end has not heard of it yet, and a reset of what was never opened breaks the trunk.
func TestALaneThatIsCutAtOnceBreaksNoOther(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		near, far := w.openStream()
		for _, text := range []string{"", "asks"} {
			cut, err := w.client.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			if text != "" {
				w.write(cut, text)
			}
			_ = cut.SetLinger(0)
			_ = cut.Close()
			synctest.Wait()
			if _, err := io.ReadAll(<-w.accepted); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the other end reads it until %v, want %v", err, syscall.ECONNRESET)
			}
		}
		w.write(near, "goes on")
		w.expect(far, "goes on")
		if w.clientErr != nil || w.serverErr != nil {
			t.Errorf("the trunk ended with %v and %v", w.clientErr, w.serverErr)
		}
	})
}
