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

// setFixture is a SessionSet in a synctest bubble. It counts its dials.
type setFixture struct {
	*SessionSet
	t       *testing.T
	dials   atomic.Int32
	dialErr error // error of dials; nil means success
	serve   func(n int32, end net.Conn)
}

// withSet runs f in a synctest bubble with a set whose peer ends are served by serve.
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

// serveAndDiscard serves a peer end as another node does.
func serveAndDiscard(_ int32, end net.Conn) {
	_ = NewServer(end, NewBudget(MaxStreams, nil), func(st *Stream) bool {
		go func() {
			_, _ = io.Copy(io.Discard, st)
			_ = st.Close()
		}()
		return true
	}).Run()
}

// openStream opens a stream. If there is no session, it waits for the background dial first.
func (e *setFixture) openStream() *Stream {
	st := e.OpenStream("far")
	if st == nil {
		synctest.Wait()
		st = e.OpenStream("far")
	}
	return st
}

func (e *setFixture) want(what string, st *Stream, stream bool, dials int32) {
	e.t.Helper()
	if n := e.dials.Load(); st != nil != stream || n != dials {
		e.t.Errorf("%s: stream opened: %v after %d dials, want %v after %d", what, st != nil, n, stream, dials)
	}
}

// wantNone checks that no stream was opened. A dial may be in progress.
func (e *setFixture) wantNone(what string, st *Stream) {
	e.t.Helper()
	if st != nil {
		e.t.Errorf("%s: a stream was opened", what)
	}
}

// OpenStream never waits for a session. It is dialed in the background, once for all callers.
func TestOpenStreamDoesNotWaitForSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &setFixture{t: t, serve: serveAndDiscard}
		asked := make(chan struct{}) // closed when all callers have tried
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
			t.Errorf("OpenStream took %v", took)
		}
		_ = first.Close()
		first.FailSession(net.ErrClosed)
		time.Sleep(dialInterval)
		e.want("once it broke", e.openStream(), true, 2)
	})
}

// A node that cannot be reached is dialed with backoff, and a node that does not support sessions
// once in maxDialInterval.
func TestUnreachableNodeIsDialedWithBackoff(t *testing.T) {
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
			t.Errorf("%d dials in a minute of a node that does not support sessions, want 2", n-6)
		}
		e.dialErr = nil
		time.Sleep(maxDialInterval)
		e.want("a newer version", e.openStream(), true, 9)
	})
}

// A connection on which nothing is received is closed, and another one is dialed later.
func TestSessionWithoutPongIsReplaced(t *testing.T) {
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
			t.Error("the first connection is still open")
		}
	})
}

// stallingConn is a connection of a process that is stopped while stalled is set.
type stallingConn struct {
	net.Conn
	stalled atomic.Bool
	resume  chan struct{} // closed to resume the process
}

func (s *stallingConn) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if s.stalled.Load() {
		<-s.resume
	}
	return n, err
}

// A session that has received nothing for a while is pinged before it gets new streams. If no pong
// arrives, it is replaced: its streams continue, and no new ones are opened on it.
func TestSilentSessionIsPingedAndReplaced(t *testing.T) {
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
		time.Sleep(2 * recentReadTime)
		if first.Responsive() || first.SessionDraining() {
			t.Errorf("after a silence Responsive = %v, SessionDraining = %v", first.Responsive(), first.SessionDraining())
		}
		e.want("after a silence", e.OpenStream("far"), false, 1)
		synctest.Wait()
		e.want("once it has answered", e.OpenStream("far"), true, 1)
		if !first.Responsive() {
			t.Error("Responsive = false after the pong")
		}
		time.Sleep(dialInterval)
		gate.Load().stalled.Store(true)
		e.want("while it stands still", e.OpenStream("far"), false, 1)
		time.Sleep(pongTimeout)
		synctest.Wait()
		e.want("after that", e.OpenStream("far"), true, 2)
		if !first.WouldBlock() || !first.SessionDraining() {
			t.Error("the first stream failed, or its session is not draining")
		}
		close(gate.Load().resume)
	})
}

// A session that fails while it is pinged shows that its peer process is gone. A new process may
// listen there, so it is dialed at once.
func TestSessionThatFailsDuringPingIsReplacedAtOnce(t *testing.T) {
	withSet(t, func(n int32, end net.Conn) {
		if n > 1 {
			serveAndDiscard(n, end)
			return
		}
		defer func() { _ = end.Close() }()
		b := make([]byte, headerLen)
		_, _ = io.ReadFull(end, b) // a ping
		_, _ = end.Write(appendFrame(nil, framePong, 0, nil))
		_, _ = io.ReadFull(end, b) // a stream
		_, _ = io.ReadFull(end, b) // the next ping
	}, func(e *setFixture) {
		e.want("at first", e.openStream(), true, 1)
		time.Sleep(dialInterval)
		e.want("then", e.openStream(), true, 2)
	})
}

// Sessions that answer the first ping and then fail, with their streams, are dialed less and less
// often. A session that lasted, or ended in order, resets the backoff.
func TestRepeatedlyFailingSessionsAreDialedWithBackoff(t *testing.T) {
	const often, seen = 10, 300 * time.Second // after that, one dial each minute
	word := func(end net.Conn) {
		_, _ = io.ReadFull(end, make([]byte, headerLen)) // a ping
		_, _ = end.Write(appendFrame(nil, framePong, 0, nil))
	}
	for what, fails := range map[string]func(end net.Conn){
		"broken": func(end net.Conn) { _, _ = end.Read(make([]byte, 1)) }, // with the first stream
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
						t.Error("a failed session is kept")
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

// A session that was being dialed during Renew uses the old credentials. No stream is opened on
// it.
func TestRenewDiscardsSessionBeingDialed(t *testing.T) {
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
		if n := len(e.allSessions()); n != 1 {
			t.Errorf("%d sessions run, want one", n)
		}
	})
}

// After Renew, the streams of the old session continue, and count in the limit of their node.
func TestStreamLimitCoversAllSessionsToNode(t *testing.T) {
	withSet(t, serveAndDiscard, func(e *setFixture) {
		first := e.openStream()
		for range MaxStreams - 1 {
			if e.OpenStream("far") == nil {
				t.Fatal("no stream within the limit")
			}
		}
		e.want("one more", e.OpenStream("far"), false, 1)
		if first.SessionDraining() {
			t.Error("a session at its stream limit is draining")
		}
		e.Renew()
		time.Sleep(dialInterval)
		e.want("by another session", e.openStream(), false, 2)
		if !first.WouldBlock() || !first.SessionDraining() {
			t.Error("the first stream failed after Renew, or its session is not draining")
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

// A session whose first frame is a GOAWAY opens no streams.
func TestSetOpensNoStreamAfterImmediateGoAway(t *testing.T) {
	withSet(t, func(_ int32, end net.Conn) {
		far := NewServer(end, NewBudget(MaxStreams, nil), func(*Stream) bool { t.Error("stream accepted"); return true })
		far.GoAway(0) // before it runs
		_ = far.Run()
	}, func(e *setFixture) {
		e.want("of who stops", e.openStream(), false, 1)
		if n := len(e.allSessions()); n != 0 {
			t.Errorf("%d sessions run", n)
		}
	})
}

// Close ends the sessions and the dials of a set. It opens no streams after that.
func TestClosedSetOpensNoStreams(t *testing.T) {
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
		if n := len(e.allSessions()); n != 0 || st.WouldBlock() {
			t.Errorf("%d sessions run after Close", n)
		}
		e.want("of a closed set", e.openStream(), false, 2)
	})
}
