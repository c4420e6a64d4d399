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

func TestStreamsCarryTheirOwnBytesBothWays(t *testing.T) {
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
							t.Errorf("stream %d: %v", i, err)
						}
						rest = rest[n:]
					}
					_ = way[0].CloseWrite()
				})
				all.Go(func() {
					if got, err := io.ReadAll(way[1]); err != nil || !bytes.Equal(got, text) {
						t.Errorf("stream %d: %d bytes, %v, want its own %d", i, len(got), err, len(text))
					}
				})
			}
		}
		all.Wait()
	})
}

func TestUnreadStreamDoesNotBlockOthers(t *testing.T) {
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
			t.Errorf("%d bytes were sent beyond the unread window, want at most %d", n, mux.Window)
		}
		if n, err := io.Copy(io.Discard, unread); n != sent.Load() || err != nil {
			t.Errorf("read %d bytes, %v, of %d", n, err, sent.Load())
		}
	})
}

func TestResetStreamHasNoEnd(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		near, far := w.openStream()
		w.write(near, "half of")
		synctest.Wait() // a reset discards what was not sent
		_ = near.SetLinger(0)
		_ = near.Close()
		synctest.Wait()
		w.expect(far, "half of")
		w.expectError(far, syscall.ECONNRESET)
		if _, err := far.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Write to a reset stream = %v", err)
		}
		if _, err := near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Write after Close = %v", err)
		}
		w.expectError(near, net.ErrClosed)
	})
}

func TestClosedStreamEndsAfterLastByte(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		near, far := w.openStream()
		w.write(near, "all")
		_ = near.Close()
		w.expect(far, "all")
		w.expectError(far, io.EOF)
		if _, err := far.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("Write to a stream whose peer has closed = %v", err)
		}
	})
}

func TestHalfClosedStreamCarriesResponse(t *testing.T) {
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

// The data that was received before the failure may be a complete message, so it is read first.
func TestFailedSessionFailsStreamsAfterReceivedData(t *testing.T) {
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
			t.Errorf("a blocked Read returned %v, want %v", broke, why)
		}
		if _, err := near.Write([]byte("x")); !errors.Is(err, why) {
			t.Errorf("Write = %v, want %v", err, why)
		}
		if _, err := w.client.OpenStream(); !errors.Is(err, why) {
			t.Errorf("OpenStream = %v, want %v", err, why)
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

func TestWatchGoneReportsPeerEnd(t *testing.T) {
	for what, leave := range map[string]func(w *sessionPair, near *mux.Stream){
		"its end":     func(_ *sessionPair, near *mux.Stream) { _ = near.CloseWrite() },
		"its close":   func(_ *sessionPair, near *mux.Stream) { _ = near.Close() },
		"the session": func(w *sessionPair, _ *mux.Stream) { w.client.Fail(errTestOver) },
	} {
		t.Run(what, func(t *testing.T) {
			withSessionPair(t, func(w *sessionPair) {
				near, far := w.openStream()
				if !far.WouldBlock() {
					t.Error("a stream without data is not quiet")
				}
				var told atomic.Int32
				if stop := far.WatchDisconnect(func() { told.Add(1) }); !stop() {
					t.Error("called before anything happened")
				}
				stop := far.WatchDisconnect(func() { told.Add(1) })
				leave(w, near)
				synctest.Wait()
				if told.Load() != 1 || stop() || far.WouldBlock() {
					t.Errorf("called %d times", told.Load())
				}
			})
		})
	}
}

func TestDrainingSessionEndsWithLastStream(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		near, far := w.openStream()
		w.client.Drain()
		if _, err := w.client.OpenStream(); !errors.Is(err, mux.ErrDraining) {
			t.Errorf("OpenStream = %v", err)
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

func TestOpenStreamReturnsErrStreamLimit(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		var last *mux.Stream
		for range mux.MaxStreams {
			var err error
			if last, err = w.client.OpenStream(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.client.OpenStream(); !errors.Is(err, mux.ErrStreamLimit) {
			t.Errorf("OpenStream = %v, want %v", err, mux.ErrStreamLimit)
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
			t.Errorf("the server fails within the stream limit: %v", w.serverErr)
		}
	})
}

// A stream that is reset before anything of it was sent has no effect on other streams. The reset
// of an unknown stream would be a protocol error.
func TestStreamResetBeforeItWasSentIsHarmless(t *testing.T) {
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
				t.Errorf("the server reads until %v, want %v", err, syscall.ECONNRESET)
			}
		}
		w.write(near, "goes on")
		w.expect(far, "goes on")
		if w.clientErr != nil || w.serverErr != nil {
			t.Errorf("Run = %v and %v", w.clientErr, w.serverErr)
		}
	})
}
