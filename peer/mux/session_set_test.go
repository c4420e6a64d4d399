package mux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// ends is what a set dials in a bubble: each end has a number, from 1 on.
type setFixture struct {
	*SessionSet
	t       *testing.T
	dials   atomic.Int32
	dialErr error // of dialing; nil: it does not
	serve   func(n int32, end net.Conn)
}

// inEnds runs f in a bubble with a set whose ends are served by serve.
func withSet(t *testing.T, serve func(n int32, end net.Conn), f func(e *setFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := &setFixture{t: t, serve: serve}
		e.SessionSet = NewSessionSet(MaxStreams, e.dial)
		defer e.Close()
		f(e)
	})
}

func (e *setFixture) dial(context.Context, string) (net.Conn, error) {
	n := e.dials.Add(1)
	if e.dialErr != nil {
		return nil, e.dialErr
	}
	a, b := net.Pipe()
	go e.serve(n, b)
	return a, nil
}

// taking serves an end as another node does.
func serveAndDiscard(_ int32, end net.Conn) {
	_ = NewServer(end, NewBudget(MaxStreams, nil), func(st *Stream) bool {
		go func() {
			_, _ = io.Copy(io.Discard, st)
			_ = st.Close()
		}()
		return true
	}).Run()
}

// soon asks for a lane, and once more when what that has set going is done.
func (e *setFixture) openStream() *Stream {
	st := e.OpenStream("far")
	if st == nil {
		synctest.Wait()
		st = e.OpenStream("far")
	}
	return st
}

func (e *setFixture) want(what string, st *Stream, lane bool, dials int32) {
	e.t.Helper()
	if n := e.dials.Load(); st != nil != lane || n != dials {
		e.t.Errorf("%s: a lane: %v, after %d dials, want %v after %d", what, st != nil, n, lane, dials)
	}
}

// none checks that there is no lane, while somebody may be dialing.
func (e *setFixture) wantNone(what string, st *Stream) {
	e.t.Helper()
	if st != nil {
		e.t.Errorf("%s: a lane", what)
	}
}

// Nobody waits for a trunk: it is laid beside what goes on without, once for all who ask.
func TestNobodyWaitsForATrunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &setFixture{t: t, serve: serveAndDiscard}
		asked := make(chan struct{}) // closed: all have
		e.SessionSet = NewSessionSet(MaxStreams, func(ctx context.Context, place string) (net.Conn, error) {
			c, err := e.dial(ctx, place)
			<-asked
			return c, err
		})
		defer e.Close()
		began := time.Now()
		for range 100 {
			e.wantNone("at first", e.OpenStream("far"))
		}
		close(asked)
		synctest.Wait()
		first := e.OpenStream("far")
		e.want("then", first, true, 1)
		if took := time.Since(began); took != 0 {
			t.Errorf("that took %v", took)
		}
		_ = first.Close()
		first.FailSession(net.ErrClosed)
		time.Sleep(dialInterval)
		e.want("once it broke", e.openStream(), true, 2)
	})
}

// A place that cannot be dialed is dialed once in a while, and one that knows no trunks still
// less often.
func TestAPlaceWithoutTrunksIsSeldomDialed(t *testing.T) {
	withSet(t, serveAndDiscard, func(e *setFixture) {
		asks := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				e.wantNone("nobody is there", e.OpenStream("far"))
			}
		}
		e.dialErr = errors.New("nobody there")
		asks(24 * dialInterval) // after 0, 1, 3, 7, 15 and 23 s
		if n := e.dials.Load(); n != 6 {
			t.Errorf("%d dials in 24 times %v", n, dialInterval)
		}
		e.dialErr = fmt.Errorf("older: %w", ErrUnsupported)
		asks(maxDialInterval + 8*dialInterval)
		if n := e.dials.Load(); n != 6+2 {
			t.Errorf("%d dials in a minute of a place that knows no trunks, want two", n-6)
		}
		e.dialErr = nil
		time.Sleep(maxDialInterval)
		e.want("a newer version", e.openStream(), true, 9)
	})
}

// A connection by which nothing ever comes is given up, and another one dialed later.
func TestATrunkThatIsNeverHeardIsReplaced(t *testing.T) {
	var silent net.Conn
	withSet(t, func(n int32, end net.Conn) {
		if n == 1 {
			silent = end
			return
		}
		serveAndDiscard(n, end)
	}, func(e *setFixture) {
		e.want("without a word", e.openStream(), false, 1)
		time.Sleep(connectTimeout + dialInterval)
		e.want("the next", e.openStream(), true, 2)
		if _, err := silent.Write([]byte{0}); err == nil {
			t.Error("the first one is still open")
		}
	})
}

// stalling is a connection of a process that stands still while it is stalled.
type stallingConn struct {
	net.Conn
	stalled atomic.Bool
	resume  chan struct{} // closed: it goes on
}

func (s *stallingConn) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if s.stalled.Load() {
		<-s.resume
	}
	return n, err
}

// A lane is as good as a connection just made: of a trunk by which nothing has come for a
// while the other end is asked for a word, and one that stands still is replaced. What runs
// by it goes on, and it is not used again.
func TestATrunkThatWentSilentIsAsked(t *testing.T) {
	var gate atomic.Pointer[stallingConn]
	withSet(t, func(n int32, end net.Conn) {
		if n == 1 {
			g := &stallingConn{Conn: end, resume: make(chan struct{})}
			gate.Store(g)
			end = g
		}
		serveAndDiscard(n, end)
	}, func(e *setFixture) {
		first := e.openStream()
		e.want("at first", first, true, 1)
		time.Sleep(2 * heardWithin)
		if first.Responsive() || first.SessionDraining() {
			t.Errorf("after a silence it is fresh: %v, over: %v", first.Responsive(), first.SessionDraining())
		}
		e.want("after a silence", e.OpenStream("far"), false, 1)
		synctest.Wait()
		e.want("once it has answered", e.OpenStream("far"), true, 1)
		if !first.Responsive() {
			t.Error("it has answered, and is not fresh")
		}
		time.Sleep(dialInterval)
		gate.Load().stalled.Store(true)
		e.want("while it stands still", e.OpenStream("far"), false, 1)
		time.Sleep(pongTimeout)
		synctest.Wait()
		e.want("after that", e.OpenStream("far"), true, 2)
		if !first.Quiet() || !first.SessionDraining() {
			t.Error("what ran broke, or may be used again")
		}
		close(gate.Load().resume)
	})
}

// A trunk that breaks as it is asked tells that its other end has gone, and nothing of who is
// there now: that one is dialed at once.
func TestATrunkThatBreaksAsItIsAskedIsReplacedAtOnce(t *testing.T) {
	withSet(t, func(n int32, end net.Conn) {
		if n > 1 {
			serveAndDiscard(n, end)
			return
		}
		defer func() { _ = end.Close() }()
		b := make([]byte, headerLen)
		_, _ = io.ReadFull(end, b) // a ping
		_, _ = end.Write(appendFrame(nil, framePong, 0, nil))
		_, _ = io.ReadFull(end, b) // a lane
		_, _ = io.ReadFull(end, b) // the next ping
	}, func(e *setFixture) {
		e.want("at first", e.openStream(), true, 1)
		time.Sleep(dialInterval)
		e.want("then", e.openStream(), true, 2)
	})
}

// A trunk that gives its word and then fails what it carries, each time, is dialed less and less
// often: streams would have served that. One that has lasted, or parted in peace, counts anew.
func TestATrunkThatBreaksAgainAndAgainIsLeftAlone(t *testing.T) {
	const often, seen = 10, 300 * time.Second // by then one more would be dialed each minute
	word := func(end net.Conn) {
		_, _ = io.ReadFull(end, make([]byte, headerLen)) // a ping
		_, _ = end.Write(appendFrame(nil, framePong, 0, nil))
	}
	for what, fails := range map[string]func(end net.Conn){
		"broken": func(end net.Conn) { _, _ = end.Read(make([]byte, 1)) }, // with the first lane
		"silent": func(end net.Conn) { _, _ = io.Copy(io.Discard, end) },
	} {
		for how, parts := range map[string]func(st *Stream){
			"lasted":   func(st *Stream) { time.Sleep(maxDialInterval); st.FailSession(io.ErrUnexpectedEOF) },
			"in peace": func(st *Stream) { st.FailSession(ErrDraining) },
		} {
			t.Run(what+", then "+how, func(t *testing.T) {
				withSet(t, func(n int32, end net.Conn) {
					if n == often+1 {
						serveAndDiscard(n, end)
						return
					}
					defer func() { _ = end.Close() }()
					word(end)
					fails(end)
				}, func(e *setFixture) {
					asks := func(d time.Duration) {
						for began := time.Now(); time.Since(began) < d; time.Sleep(10 * time.Millisecond) {
							if st := e.OpenStream("far"); st != nil {
								_ = st.Close()
							}
						}
					}
					asks(seen)
					e.want("in five minutes", nil, false, often)
					if e.destinations["far"].session != nil {
						t.Error("a trunk that has failed is kept")
					}
					time.Sleep(maxDialInterval)
					st := e.openStream()
					e.want("then", st, true, often+1)
					parts(st)
					synctest.Wait()
					time.Sleep(dialInterval)
					e.want("at once", e.openStream(), true, often+2)
					asks(5 * dialInterval / 2)
					e.want("and soon after that", nil, false, often+3)
				})
			})
		}
	}
}

// What is dialed while all is renewed was dialed with what was before: no lane goes by it.
func TestARenewalReachesWhatIsBeingDialed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &setFixture{t: t, serve: serveAndDiscard}
		slow := make(chan struct{})
		e.SessionSet = NewSessionSet(MaxStreams, func(ctx context.Context, place string) (net.Conn, error) {
			c, err := e.dial(ctx, place)
			<-slow
			return c, err
		})
		defer e.Close()
		e.want("at first", e.openStream(), false, 1)
		e.Renew()
		close(slow)
		synctest.Wait()
		e.want("after the renewal", e.OpenStream("far"), false, 1)
		time.Sleep(dialInterval)
		e.want("then", e.openStream(), true, 2)
		if n := len(e.list()); n != 1 {
			t.Errorf("%d trunks run, want one", n)
		}
	})
}

// Lanes of before go on when all is renewed, and count in what there may be to that place.
func TestLanesOfAllTrunksToAPlaceAreBounded(t *testing.T) {
	withSet(t, serveAndDiscard, func(e *setFixture) {
		first := e.openStream()
		for range MaxStreams - 1 {
			if e.OpenStream("far") == nil {
				t.Fatal("no lane within the bound")
			}
		}
		e.want("one more", e.OpenStream("far"), false, 1)
		if first.SessionDraining() {
			t.Error("a trunk that is full is over")
		}
		e.Renew()
		time.Sleep(dialInterval)
		e.want("by another trunk", e.openStream(), false, 2)
		if !first.Quiet() || !first.SessionDraining() {
			t.Error("a lane of before broke with the renewal, or may be used again")
		}
		_ = first.Close()
		synctest.Wait()
		e.want("in the place of one", e.OpenStream("far"), true, 2)
		e.want("and no more", e.OpenStream("far"), false, 2)
		e.want("elsewhere", e.OpenStream("other"), false, 2)
		synctest.Wait()
		e.want("elsewhere, then", e.OpenStream("other"), true, 3)
	})
}

// A trunk whose first word is the last one gives no lanes.
func TestASetOpensNoLaneToWhoStops(t *testing.T) {
	withSet(t, func(_ int32, end net.Conn) {
		far := NewServer(end, NewBudget(MaxStreams, nil), func(*Stream) bool { t.Error("given"); return true })
		far.GoAway(0) // before it runs
		_ = far.Run()
	}, func(e *setFixture) {
		e.want("of who stops", e.openStream(), false, 1)
		if n := len(e.list()); n != 0 {
			t.Errorf("%d trunks run on", n)
		}
	})
}

// A set that is closed ends what it runs and what it dials, and gives nothing.
func TestAClosedSetGivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &setFixture{t: t, serve: serveAndDiscard}
		e.SessionSet = NewSessionSet(MaxStreams, func(ctx context.Context, place string) (net.Conn, error) {
			if place == "slow" {
				<-ctx.Done()
			}
			return e.dial(ctx, place)
		})
		st := e.openStream()
		e.OpenStream("slow")
		synctest.Wait()
		e.Close()
		if n := len(e.list()); n != 0 || st.Quiet() {
			t.Errorf("%d trunks run on when the set is closed", n)
		}
		e.want("of a closed set", e.openStream(), false, 2)
	})
}
