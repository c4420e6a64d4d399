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
type ends struct {
	*Set
	t     *testing.T
	dials atomic.Int32
	fails error // of dialing; nil: it does not
	serve func(n int32, end net.Conn)
}

// inEnds runs f in a bubble with a set whose ends are served by serve.
func inEnds(t *testing.T, serve func(n int32, end net.Conn), f func(e *ends)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := &ends{t: t, serve: serve}
		e.Set = NewSet(MaxLanes, e.dial)
		defer e.Close()
		f(e)
	})
}

func (e *ends) dial(context.Context, string) (net.Conn, error) {
	n := e.dials.Add(1)
	if e.fails != nil {
		return nil, e.fails
	}
	a, b := net.Pipe()
	go e.serve(n, b)
	return a, nil
}

// taking serves an end as another node does.
func taking(_ int32, end net.Conn) {
	_ = Accepted(end, NewBudget(MaxLanes, nil), func(l *Lane) bool {
		go func() {
			_, _ = io.Copy(io.Discard, l)
			_ = l.Close()
		}()
		return true
	}).Run()
}

// soon asks for a lane, and once more when what that has set going is done.
func (e *ends) soon() *Lane {
	l := e.Lane("far")
	if l == nil {
		synctest.Wait()
		l = e.Lane("far")
	}
	return l
}

func (e *ends) want(what string, l *Lane, lane bool, dials int32) {
	e.t.Helper()
	if n := e.dials.Load(); l != nil != lane || n != dials {
		e.t.Errorf("%s: a lane: %v, after %d dials, want %v after %d", what, l != nil, n, lane, dials)
	}
}

// none checks that there is no lane, while somebody may be dialing.
func (e *ends) none(what string, l *Lane) {
	e.t.Helper()
	if l != nil {
		e.t.Errorf("%s: a lane", what)
	}
}

// Nobody waits for a trunk: it is laid beside what goes on without, once for all who ask.
func TestNobodyWaitsForATrunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &ends{t: t, serve: taking}
		asked := make(chan struct{}) // closed: all have
		e.Set = NewSet(MaxLanes, func(ctx context.Context, place string) (net.Conn, error) {
			c, err := e.dial(ctx, place)
			<-asked
			return c, err
		})
		defer e.Close()
		began := time.Now()
		for range 100 {
			e.none("at first", e.Lane("far"))
		}
		close(asked)
		synctest.Wait()
		first := e.Lane("far")
		e.want("then", first, true, 1)
		if took := time.Since(began); took != 0 {
			t.Errorf("that took %v", took)
		}
		_ = first.Close()
		first.Fail(net.ErrClosed)
		time.Sleep(layEvery)
		e.want("once it broke", e.soon(), true, 2)
	})
}

// A place that cannot be dialed is dialed once in a while, and one that knows no trunks still
// less often.
func TestAPlaceWithoutTrunksIsSeldomDialed(t *testing.T) {
	inEnds(t, taking, func(e *ends) {
		asks := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				e.none("nobody is there", e.Lane("far"))
			}
		}
		e.fails = errors.New("nobody there")
		asks(24 * layEvery) // after 0, 1, 3, 7, 15 and 23 s
		if n := e.dials.Load(); n != 6 {
			t.Errorf("%d dials in 24 times %v", n, layEvery)
		}
		e.fails = fmt.Errorf("older: %w", ErrUnknown)
		asks(plainFor + 8*layEvery)
		if n := e.dials.Load(); n != 6+2 {
			t.Errorf("%d dials in a minute of a place that knows no trunks, want two", n-6)
		}
		e.fails = nil
		time.Sleep(plainFor)
		e.want("a newer version", e.soon(), true, 9)
	})
}

// A connection by which nothing ever comes is given up, and another one dialed later.
func TestATrunkThatIsNeverHeardIsReplaced(t *testing.T) {
	var silent net.Conn
	inEnds(t, func(n int32, end net.Conn) {
		if n == 1 {
			silent = end
			return
		}
		taking(n, end)
	}, func(e *ends) {
		e.want("without a word", e.soon(), false, 1)
		time.Sleep(layTime + layEvery)
		e.want("the next", e.soon(), true, 2)
		if _, err := silent.Write([]byte{0}); err == nil {
			t.Error("the first one is still open")
		}
	})
}

// stalling is a connection of a process that stands still while it is stalled.
type stalling struct {
	net.Conn
	stalled atomic.Bool
	on      chan struct{} // closed: it goes on
}

func (s *stalling) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if s.stalled.Load() {
		<-s.on
	}
	return n, err
}

// A lane is as good as a connection just made: of a trunk by which nothing has come for a
// while the other end is asked for a word, and one that stands still is replaced. What runs
// by it goes on, and it is not used again.
func TestATrunkThatWentSilentIsAsked(t *testing.T) {
	var gate atomic.Pointer[stalling]
	inEnds(t, func(n int32, end net.Conn) {
		if n == 1 {
			g := &stalling{Conn: end, on: make(chan struct{})}
			gate.Store(g)
			end = g
		}
		taking(n, end)
	}, func(e *ends) {
		first := e.soon()
		e.want("at first", first, true, 1)
		time.Sleep(2 * freshFor)
		if first.Fresh() || first.Over() {
			t.Errorf("after a silence it is fresh: %v, over: %v", first.Fresh(), first.Over())
		}
		e.want("after a silence", e.Lane("far"), false, 1)
		synctest.Wait()
		e.want("once it has answered", e.Lane("far"), true, 1)
		if !first.Fresh() {
			t.Error("it has answered, and is not fresh")
		}
		time.Sleep(layEvery)
		gate.Load().stalled.Store(true)
		e.want("while it stands still", e.Lane("far"), false, 1)
		time.Sleep(askTime)
		synctest.Wait()
		e.want("after that", e.Lane("far"), true, 2)
		if !first.Quiet() || !first.Over() {
			t.Error("what ran broke, or may be used again")
		}
		close(gate.Load().on)
	})
}

// A trunk that breaks as it is asked tells that its other end has gone, and nothing of who is
// there now: that one is dialed at once.
func TestATrunkThatBreaksAsItIsAskedIsReplacedAtOnce(t *testing.T) {
	inEnds(t, func(n int32, end net.Conn) {
		if n > 1 {
			taking(n, end)
			return
		}
		defer func() { _ = end.Close() }()
		b := make([]byte, headLen)
		_, _ = io.ReadFull(end, b) // a ping
		_, _ = end.Write(appendFrame(nil, kindPong, 0, nil))
		_, _ = io.ReadFull(end, b) // a lane
		_, _ = io.ReadFull(end, b) // the next ping
	}, func(e *ends) {
		e.want("at first", e.soon(), true, 1)
		time.Sleep(layEvery)
		e.want("then", e.soon(), true, 2)
	})
}

// A trunk that gives its word and then fails what it carries, each time, is dialed less and less
// often: streams would have served that. One that has lasted, or parted in peace, counts anew.
func TestATrunkThatBreaksAgainAndAgainIsLeftAlone(t *testing.T) {
	const often, seen = 10, 300 * time.Second // by then one more would be dialed each minute
	word := func(end net.Conn) {
		_, _ = io.ReadFull(end, make([]byte, headLen)) // a ping
		_, _ = end.Write(appendFrame(nil, kindPong, 0, nil))
	}
	for what, fails := range map[string]func(end net.Conn){
		"broken": func(end net.Conn) { _, _ = end.Read(make([]byte, 1)) }, // with the first lane
		"silent": func(end net.Conn) { _, _ = io.Copy(io.Discard, end) },
	} {
		for how, parts := range map[string]func(l *Lane){
			"lasted":   func(l *Lane) { time.Sleep(plainFor); l.Fail(io.ErrUnexpectedEOF) },
			"in peace": func(l *Lane) { l.Fail(ErrRetired) },
		} {
			t.Run(what+", then "+how, func(t *testing.T) {
				inEnds(t, func(n int32, end net.Conn) {
					if n == often+1 {
						taking(n, end)
						return
					}
					defer func() { _ = end.Close() }()
					word(end)
					fails(end)
				}, func(e *ends) {
					asks := func(d time.Duration) {
						for began := time.Now(); time.Since(began) < d; time.Sleep(10 * time.Millisecond) {
							if l := e.Lane("far"); l != nil {
								_ = l.Close()
							}
						}
					}
					asks(seen)
					e.want("in five minutes", nil, false, often)
					if e.ways["far"].trunk != nil {
						t.Error("a trunk that has failed is kept")
					}
					time.Sleep(plainFor)
					l := e.soon()
					e.want("then", l, true, often+1)
					parts(l)
					synctest.Wait()
					time.Sleep(layEvery)
					e.want("at once", e.soon(), true, often+2)
					asks(5 * layEvery / 2)
					e.want("and soon after that", nil, false, often+3)
				})
			})
		}
	}
}

// What is dialed while all is renewed was dialed with what was before: no lane goes by it.
func TestARenewalReachesWhatIsBeingDialed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &ends{t: t, serve: taking}
		slow := make(chan struct{})
		e.Set = NewSet(MaxLanes, func(ctx context.Context, place string) (net.Conn, error) {
			c, err := e.dial(ctx, place)
			<-slow
			return c, err
		})
		defer e.Close()
		e.want("at first", e.soon(), false, 1)
		e.Renew()
		close(slow)
		synctest.Wait()
		e.want("after the renewal", e.Lane("far"), false, 1)
		time.Sleep(layEvery)
		e.want("then", e.soon(), true, 2)
		if n := len(e.trunks()); n != 1 {
			t.Errorf("%d trunks run, want one", n)
		}
	})
}

// Lanes of before go on when all is renewed, and count in what there may be to that place.
func TestLanesOfAllTrunksToAPlaceAreBounded(t *testing.T) {
	inEnds(t, taking, func(e *ends) {
		first := e.soon()
		for range MaxLanes - 1 {
			if e.Lane("far") == nil {
				t.Fatal("no lane within the bound")
			}
		}
		e.want("one more", e.Lane("far"), false, 1)
		if first.Over() {
			t.Error("a trunk that is full is over")
		}
		e.Renew()
		time.Sleep(layEvery)
		e.want("by another trunk", e.soon(), false, 2)
		if !first.Quiet() || !first.Over() {
			t.Error("a lane of before broke with the renewal, or may be used again")
		}
		_ = first.Close()
		synctest.Wait()
		e.want("in the place of one", e.Lane("far"), true, 2)
		e.want("and no more", e.Lane("far"), false, 2)
		e.want("elsewhere", e.Lane("other"), false, 2)
		synctest.Wait()
		e.want("elsewhere, then", e.Lane("other"), true, 3)
	})
}

// A trunk whose first word is the last one gives no lanes.
func TestASetOpensNoLaneToWhoStops(t *testing.T) {
	inEnds(t, func(_ int32, end net.Conn) {
		far := Accepted(end, NewBudget(MaxLanes, nil), func(*Lane) bool { t.Error("given"); return true })
		far.Last(0) // before it runs
		_ = far.Run()
	}, func(e *ends) {
		e.want("of who stops", e.soon(), false, 1)
		if n := len(e.trunks()); n != 0 {
			t.Errorf("%d trunks run on", n)
		}
	})
}

// A set that is closed ends what it runs and what it dials, and gives nothing.
func TestAClosedSetGivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &ends{t: t, serve: taking}
		e.Set = NewSet(MaxLanes, func(ctx context.Context, place string) (net.Conn, error) {
			if place == "slow" {
				<-ctx.Done()
			}
			return e.dial(ctx, place)
		})
		l := e.soon()
		e.Lane("slow")
		synctest.Wait()
		e.Close()
		if n := len(e.trunks()); n != 0 || l.Quiet() {
			t.Errorf("%d trunks run on when the set is closed", n)
		}
		e.want("of a closed set", e.soon(), false, 2)
	})
}
