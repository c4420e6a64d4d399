package muxpool

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/peer"
	"shardway/peer/mux"
)

// farPort is the peer port of another node in a bubble. Its version does not support mux sessions until it is upgraded.
type farPort struct {
	ends    chan net.Conn
	trunks  atomic.Int32 // accepted sessions
	streams atomic.Int32
}

// serve runs the port until ctx ends.
func (f *farPort) serve(ctx context.Context, upgraded bool) {
	p := peer.New(peer.Options{Node: "b", Cluster: func() string { return "c" }})
	p.Handle(peer.Forward, func(ctx context.Context, _ *peer.Conn) {
		f.streams.Add(1)
		<-ctx.Done()
	})
	if upgraded {
		p.Handle(peer.RequestSession, func(_ context.Context, c *peer.Conn) {
			f.trunks.Add(1)
			_ = mux.NewServer(c, mux.NewBudget(mux.MaxStreams, nil), func(*mux.Stream) bool { return true }).Run()
		})
	}
	_ = p.Serve(ctx, &listener{far: f, ctx: ctx}) // ends with ctx
}

// listener accepts dialed connections until ctx ends.
type listener struct {
	far *farPort
	ctx context.Context //nolint:containedctx // the context limits the life of the listener
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.far.ends:
		return c, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}
func (l *listener) Close() error   { return nil }
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: "far"} }

// dialing returns the port of a node that reaches far.
func dialing(name string, far *farPort) *peer.Port {
	return peer.New(peer.Options{
		Node: name, Cluster: func() string { return "c" },
		Lookup: func(string) (string, bool) { return "far", true },
		Dial: func(context.Context, string) (net.Conn, error) {
			near, end := net.Pipe()
			far.ends <- end
			return near, nil
		},
	})
}

// A node without support for mux sessions refuses them. Small requests use streams there, and the session is dialed again a minute later,
// when the node may have been upgraded.
func TestNodeWithoutSessionSupportIsDialedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := &farPort{ends: make(chan net.Conn)}
		run := func(upgraded bool) (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				far.serve(ctx, upgraded)
			}()
			return func() { cancel(); <-ended }
		}
		r := NewForRequests(dialing("a", far))
		defer r.Outgoing.Close()
		open := func(lane bool) {
			t.Helper()
			c := r.Outgoing.OpenStream("b")
			if c == nil {
				synctest.Wait() // the pool evaluates the result
				c = r.Outgoing.OpenStream("b")
			}
			if (c != nil) != lane {
				t.Errorf("a lane: %v, want %v", c, lane)
			}
		}
		stop := run(false)
		open(false)
		stop()
		stop = run(true)
		time.Sleep(50 * time.Second)
		open(false) // it is not dialed each time
		if n := far.trunks.Load(); n != 0 {
			t.Errorf("%d trunks", n)
		}
		time.Sleep(10 * time.Second)
		open(true)
		open(true)
		if s, n := far.streams.Load(), far.trunks.Load(); s != 0 || n != 1 {
			t.Errorf("%d streams and %d trunks, want one trunk", s, n)
		}
		r.Outgoing.Close()
		stop()
	})
}

// A panic in the handler of a stream ends that stream. Its session and the node continue.
func TestStreamIsClosedWhenItsHandlerPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		o := mux.NewClient(near, mux.NewBudget(mux.MaxStreams, nil))
		given := mux.NewServer(far, mux.NewBudget(mux.MaxStreams, nil), func(l *mux.Stream) bool {
			go serveStream(t.Context(), zerolog.Nop(), l, &peer.Conn{}, func(context.Context, net.Conn, string) { panic("a bug") })
			return true
		})
		go func() { _ = o.Run() }()
		go func() { _ = given.Run() }()
		for range 2 {
			l, err := o.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("Read = %v, want %v", err, syscall.ECONNRESET)
			}
			_ = l.Close()
		}
		o.Fail(net.ErrClosed)
	})
}

// opener is the remote end of a session that a node has accepted, in a bubble.
type opener struct {
	*mux.Session
	given chan *mux.Stream // the streams that the node accepted
	ended chan error       // the result of its Run
}

// accept makes l accept a session, as serve does.
func (p *Pool) accept() *opener {
	a, b := net.Pipe()
	o := &opener{Session: mux.NewClient(a, mux.NewBudget(mux.MaxStreams, nil)), given: make(chan *mux.Stream, 8), ended: make(chan error, 1)}
	t := mux.NewServer(b, mux.NewBudget(mux.MaxStreams, nil), func(l *mux.Stream) bool { o.given <- l; return true })
	go func() { o.ended <- o.Run() }()
	go func() {
		p.add(t)
		defer p.remove(t)
		_ = t.Run()
	}()
	return o
}

// ask opens a stream and sends data on it.
func (o *opener) ask(t *testing.T) *mux.Stream {
	t.Helper()
	l, err := o.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return l
}

// A stopping node first refuses new streams, then ends and answers the open ones, and waits until the remote ends have read that.
func TestStoppingNodeRefusesStreamsAndClosesOpenOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewForRequests(peer.New(peer.Options{Node: "a", Cluster: func() string { return "c" }}))
		o, other := l.accept(), l.accept()
		taken := o.ask(t)
		at := <-o.given
		began := time.Now()
		l.Shutdown(func() {
			synctest.Wait()
			for _, o := range []*opener{o, other} {
				if _, err := o.OpenStream(); !errors.Is(err, mux.ErrDraining) {
					t.Errorf("Open as lanes are ended = %v, want %v", err, mux.ErrDraining)
				}
			}
			if len(o.ended) != 0 {
				t.Error("a trunk with a lane has ended")
			}
			go func() {
				time.Sleep(goAwayTimeout / 2)
				_, _ = at.Write([]byte("last word"))
				_ = at.Close()
			}()
			go func() {
				b, err := io.ReadAll(taken)
				if string(b) != "last word" || err != nil {
					t.Errorf("the lane that was taken brings %q, %v", b, err)
				}
				_ = taken.Close()
			}()
		})
		if took := time.Since(began); took != goAwayTimeout/2 {
			t.Errorf("it waits %v, want until the other ends have ended their trunks", took)
		}
		synctest.Wait()
		if len(o.ended) != 1 || len(other.ended) != 1 {
			t.Error("a trunk without lanes goes on")
		}

		late := l.accept() // before the port closes
		synctest.Wait()
		if lane, err := late.OpenStream(); err == nil {
			t.Errorf("a lane is opened by a trunk that came later: %v", lane)
		}
		if len(late.given) != 0 {
			t.Error("a lane of a trunk that came later is taken")
		}
	})
}

// A stopping node waits only for a moment for a remote end that does not read the last messages, and not at all without sessions.
func TestANodeThatStopsWaitsForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewForRequests(peer.New(peer.Options{Node: "a", Cluster: func() string { return "c" }}))
		calls := 0
		began := time.Now()
		l.Shutdown(func() { calls++ })
		if took := time.Since(began); took != 0 || calls != 1 {
			t.Errorf("without trunks it takes %v, and ends requests %d times", took, calls)
		}
		l = NewForRequests(peer.New(peer.Options{Node: "a", Cluster: func() string { return "c" }}))
		o := l.accept()
		o.ask(t)
		began = time.Now()
		l.Shutdown(func() { calls++ })
		if took := time.Since(began); took != goAwayTimeout || calls != 2 {
			t.Errorf("it waits %v for a lane that stays, and ends requests %d times", took, calls-1)
		}
		o.Fail(net.ErrClosed)
		synctest.Wait()
	})
}

// Requests are ended once the remote ends know that no more are accepted. A request in between would be ended as well, without a notice
// that it was not processed.
func TestStoppingNodeSendsGoAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewForRequests(peer.New(peer.Options{Node: "a", Cluster: func() string { return "c" }}))
		near, far := net.Pipe()
		slow := mux.NewServer(near, mux.NewBudget(mux.MaxStreams, nil), func(*mux.Stream) bool { return true })
		l.add(slow)
		go func() {
			defer l.remove(slow)
			_ = slow.Run()
		}()
		go func() {
			time.Sleep(goAwayTimeout / 2)
			_ = mux.NewClient(far, mux.NewBudget(mux.MaxStreams, nil)).Run() // reads the messages only now
		}()
		began := time.Now()
		l.Shutdown(func() {
			if told := time.Since(began); told != goAwayTimeout/2 {
				t.Errorf("requests are ended after %v, and it is told after %v", told, goAwayTimeout/2)
			}
		})
		synctest.Wait()
	})
}
