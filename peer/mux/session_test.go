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
	inWorld(t, func(w *world) {
		var all sync.WaitGroup
		for i := range 50 {
			near, far := w.lane()
			text := bytes.Repeat([]byte{byte(i)}, 1+rand.IntN(5*mux.Window))
			for _, way := range [][2]*mux.Lane{{near, far}, {far, near}} {
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
	inWorld(t, func(w *world) {
		stuck, unread := w.lane()
		var sent atomic.Int64
		go func() {
			n, err := stuck.Write(make([]byte, 10*mux.Window))
			sent.Store(int64(n))
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("Write = %v, want %v", err, net.ErrClosed)
			}
		}()
		near, far := w.lane()
		asks, answers := strings.Repeat("asks", 300), strings.Repeat("answers", 300)
		for range mux.Window / 300 {
			w.say(near, asks)
			w.hear(far, asks)
			w.say(far, answers)
			w.hear(near, answers)
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
	inWorld(t, func(w *world) {
		near, far := w.lane()
		w.say(near, "half of")
		synctest.Wait() // what has not left is not sent any more
		_ = near.SetLinger(0)
		_ = near.Close()
		synctest.Wait()
		w.hear(far, "half of")
		w.ends(far, syscall.ECONNRESET)
		if _, err := far.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Write to one that was cut = %v", err)
		}
		if _, err := near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Write after Close = %v", err)
		}
		w.ends(near, net.ErrClosed)
	})
}

func TestWhatIsClosedEndsBehindItsLastByte(t *testing.T) {
	inWorld(t, func(w *world) {
		near, far := w.lane()
		w.say(near, "all")
		_ = near.Close()
		w.hear(far, "all")
		w.ends(far, io.EOF)
		if _, err := far.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("Write to one that reads no more = %v", err)
		}
	})
}

func TestHalfOfALaneGoesOn(t *testing.T) {
	inWorld(t, func(w *world) {
		near, far := w.lane()
		w.say(near, "asks")
		_ = near.CloseWrite()
		w.hear(far, "asks")
		w.ends(far, io.EOF)
		w.say(far, "answers")
		w.hear(near, "answers")
		if _, err := near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Write after CloseWrite = %v", err)
		}
	})
}

// What broke off with the trunk may have been whole: that is read first.
func TestABrokenTrunkBreaksEveryLaneBehindWhatHasCome(t *testing.T) {
	inWorld(t, func(w *world) {
		near, far := w.lane()
		waits, _ := w.lane()
		var broke error
		go func() { _, broke = waits.Read(make([]byte, 1)) }()
		w.say(far, "whole")
		synctest.Wait()
		why := errors.New("cut")
		w.near.Fail(why)
		w.hear(near, "whole")
		w.ends(near, why)
		synctest.Wait()
		if !errors.Is(broke, why) {
			t.Errorf("a waiting read ends with %v, want %v", broke, why)
		}
		if _, err := near.Write([]byte("x")); !errors.Is(err, why) {
			t.Errorf("Write = %v, want %v", err, why)
		}
		if _, err := w.near.Open(); !errors.Is(err, why) {
			t.Errorf("Open = %v, want %v", err, why)
		}
		if w.ends(far, io.ErrUnexpectedEOF); !errors.Is(w.nearE, why) || !errors.Is(w.farE, io.ErrUnexpectedEOF) {
			t.Errorf("Run = %v and %v", w.nearE, w.farE)
		}
	})
}

func TestDeadlinesEndReadsAndWrites(t *testing.T) {
	inWorld(t, func(w *world) {
		near, far := w.lane()
		began := time.Now()
		_ = near.SetReadDeadline(began.Add(time.Second))
		w.ends(near, os.ErrDeadlineExceeded)
		if took := time.Since(began); took != time.Second {
			t.Errorf("the read ended after %v", took)
		}
		_ = near.SetReadDeadline(time.Now().Add(time.Second))
		_ = near.SetReadDeadline(time.Time{})
		time.AfterFunc(time.Minute, func() { w.say(far, "late") })
		w.hear(near, "late")

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
	for what, leave := range map[string]func(w *world, near *mux.Lane){
		"its end":   func(_ *world, near *mux.Lane) { _ = near.CloseWrite() },
		"its close": func(_ *world, near *mux.Lane) { _ = near.Close() },
		"the trunk": func(w *world, _ *mux.Lane) { w.near.Fail(errOver) },
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				near, far := w.lane()
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
	inWorld(t, func(w *world) {
		near, far := w.lane()
		w.near.Retire()
		if _, err := w.near.Open(); !errors.Is(err, mux.ErrRetired) {
			t.Errorf("Open = %v", err)
		}
		w.say(near, "goes on")
		w.hear(far, "goes on")
		_ = near.Close()
		synctest.Wait()
		if !errors.Is(w.nearE, mux.ErrRetired) || w.farE == nil {
			t.Errorf("Run = %v and %v", w.nearE, w.farE)
		}
	})
}

func TestLanesAreBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		var last *mux.Lane
		for range mux.MaxLanes {
			var err error
			if last, err = w.near.Open(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.near.Open(); !errors.Is(err, mux.ErrFull) {
			t.Errorf("Open = %v, want %v", err, mux.ErrFull)
		}
		_ = last.Close()
		synctest.Wait()
		for range mux.MaxLanes {
			last = <-w.given
		}
		_ = last.Close()
		synctest.Wait()
		near, err := w.near.Open()
		if err != nil {
			t.Fatal(err)
		}
		w.say(near, "x")
		synctest.Wait()
		if w.farE != nil {
			t.Errorf("the other end refuses what is within its bound: %v", w.farE)
		}
	})
}

// A lane that is cut before anything of it has left costs no other lane anything: the other
// end has not heard of it yet, and a reset of what was never opened breaks the trunk.
func TestALaneThatIsCutAtOnceBreaksNoOther(t *testing.T) {
	inWorld(t, func(w *world) {
		near, far := w.lane()
		for _, text := range []string{"", "asks"} {
			cut, err := w.near.Open()
			if err != nil {
				t.Fatal(err)
			}
			if text != "" {
				w.say(cut, text)
			}
			_ = cut.SetLinger(0)
			_ = cut.Close()
			synctest.Wait()
			if _, err := io.ReadAll(<-w.given); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the other end reads it until %v, want %v", err, syscall.ECONNRESET)
			}
		}
		w.say(near, "goes on")
		w.hear(far, "goes on")
		if w.nearE != nil || w.farE != nil {
			t.Errorf("the trunk ended with %v and %v", w.nearE, w.farE)
		}
	})
}
