package proxy

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"shardway/internal/coarsetime"
	"shardway/proxy/backoff"
	"shardway/proxy/h1"
	"shardway/proxy/wsession"
	"shardway/queue"
)

// closing is a connection that tells when it is closed.
type closing struct {
	net.Conn
	closed func()
}

func (c closing) Close() error {
	c.closed()
	return c.Conn.Close()
}

// testPool returns a pool of a node, or of the app if node is empty. Up to three of its connections can
// be long-lived.
func testPool(node string, dial func(context.Context) (*upstreamConn, error)) *pool {
	clock := new(coarsetime.Clock)
	clock.Start(time.Now())
	q := queue.New(queue.Options{})
	return newPool(poolOptions{
		Queues: backoff.Queues{q, q, q},
		Node:   node, Dial: dial, Life: context.Background(), Dialers: new(sync.WaitGroup), Clock: clock, Streams: &streams{max: 3},
		Pacer: &wsession.ReconnectPacer{TimeLimit: time.Minute, MeasureDelay: func(time.Time) time.Duration { return 0 }},
	})
}

// A close may take its time, over TLS above all. It was done while nobody else
// could get a connection or give one back.
func TestPoolClosesOutsideItsLock(t *testing.T) {
	here, there := net.Pipe()
	defer func() { _ = there.Close() }()
	fresh, far := net.Pipe()
	defer func() { _ = far.Close() }()
	p := testPool("", func(context.Context) (*upstreamConn, error) {
		return &upstreamConn{Conn: h1.NewConn(fresh, h1.Options{})}, nil
	})
	p.opts.MaxConns = 1
	closed := make(chan bool, 1)
	c := closing{Conn: here, closed: func() {
		free := make(chan struct{})
		go func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			close(free)
		}()
		select {
		case <-free:
			closed <- true
		case <-time.After(30 * time.Second):
			closed <- false
		}
	}}
	p.mu.open, p.mu.idle = 1, []*upstreamConn{{Conn: h1.NewConn(c, h1.Options{}), pool: p}}
	// It cannot be looked at, so a request that must not be sent twice needs another.
	if l := p.get(connRequest{shard: noShard, fresh: true}); l != nil {
		t.Fatal("took what it cannot look at")
	}
	w := &waiter{shard: noShard, fresh: true}
	l, dialed, err := p.join(w)
	if l != nil || !dialed || err != nil {
		t.Fatalf("join = %v, %v, %v, want one to be dialed", l, dialed, err)
	}
	if l, err = p.await(w, nil, time.Minute); err != nil {
		t.Fatal(err)
	}
	if !<-closed {
		t.Error("closed under the pool's lock")
	}
	if p.openConns() != 1 || len(p.mu.idle) != 0 {
		t.Errorf("%d open, %d idle; want 1, 0", p.openConns(), len(p.mu.idle))
	}
	p.discard(l)
}

// A stream that another node opened while this one stopped came to a closed pool,
// was told to look at the table again, and did so without a pause for as long as it
// lived: the table said as before that the app is here.
func TestClosedAppPoolIsNotReaped(t *testing.T) {
	for node, again := range map[string]bool{"": false, "b": true} {
		p := testPool(node, nil)
		p.close()
		if _, _, err := p.join(&waiter{shard: noShard}); errors.Is(err, errRouteChanged) != again || err == nil {
			t.Errorf("join of the closed pool of %q = %v", node, err)
		}
	}
}

// A pool that another one has replaced opens no lane, and keeps none that comes back: what it
// knows of the node is of before. While the gate is shut nothing goes by a lane either.
func TestClosedPoolOpensNoStreams(t *testing.T) {
	p := testPool("b", nil)
	opened, ended := 0, 0
	p.opts.OpenStream = func() *upstreamConn {
		opened++
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		c := closing{Conn: near, closed: func() { ended++ }}
		return &upstreamConn{Conn: h1.NewConn(c, h1.Options{}), mux: struct{ muxStream }{}}
	}
	p.breaker.Open(errBusy)
	if p.getStream() != nil || opened != 0 {
		t.Error("a lane is opened while the gate is shut")
	}
	p.breaker.Reset()
	l := p.getStream()
	if l == nil || p.openConns() != 1 {
		t.Fatalf("%v of %d", l, p.openConns())
	}
	p.close()
	if p.getStream() != nil || opened != 2 || ended != 1 {
		t.Errorf("%d lanes are opened, and %d of them closed, want two and the second", opened, ended)
	}
	p.put(l)
	if p.openConns() != 0 || ended != 2 {
		t.Errorf("%d are open, and %d closed", p.openConns(), ended)
	}
}

// What is idle to a process of a node is closed once another one has followed it, and so is
// what comes back later. What tells of no process is nobody's.
func TestPoolFollowsPeerProcess(t *testing.T) {
	for _, laned := range []bool{false, true} {
		p := testPool("n", nil)
		open := map[uint64]bool{}
		fresh := func(boot uint64) *upstreamConn {
			near, far := net.Pipe()
			t.Cleanup(func() { _ = far.Close() })
			open[boot] = true
			l := &upstreamConn{Conn: h1.NewConn(closing{near, func() { open[boot] = false }}, h1.Options{}), pool: p, boot: boot, shard: noShard}
			if laned {
				l.mux = struct{ muxStream }{}
			}
			p.mu.open++
			return l
		}
		back := fresh(3)
		for boot := range uint64(3) {
			p.put(fresh(boot))
		}
		p.setPeerProcess(2, 0)
		if want := map[uint64]bool{0: true, 1: false, 2: true, 3: true}; !maps.Equal(open, want) {
			t.Errorf("lanes: %v: open by boot: %v, want %v", laned, open, want)
		}
		p.put(back)
		if open[3] {
			t.Errorf("lanes: %v: one to another process came back, and is kept", laned)
		}
		p.renew()
	}
}

// Who is in line is not given what comes back to an earlier process either, as it does late
// where the client takes its time. Whoever takes a connection now is the present process,
// whatever was told.
func TestWaitersGetNoConnToPreviousProcess(t *testing.T) {
	ends := make(chan struct{})
	p := testPool("n", func(context.Context) (*upstreamConn, error) { <-ends; return nil, context.Canceled })
	defer p.opts.Dialers.Wait()
	defer close(ends)
	link := func(boot uint64, reused bool) *upstreamConn {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		p.mu.open++
		return &upstreamConn{Conn: h1.NewConn(near, h1.Options{}), pool: p, boot: boot, shard: noShard, reused: reused}
	}
	w := &waiter{shard: noShard}
	if l, _, err := p.join(w); l != nil || err != nil {
		t.Fatal(l, err)
	}
	old := link(1, true)
	p.setPeerProcess(2, 0)
	p.put(old)
	select {
	case got := <-w.granted:
		t.Fatalf("who is in line got a connection to process %d, and 2 has followed it", got.conn.boot)
	default:
	}
	fresh := link(3, false)
	p.addDialed(fresh, nil)
	if got := <-w.granted; got.conn != fresh {
		t.Errorf("who is in line got one to process %d, want the one that was made now", got.conn.boot)
	}
	p.put(fresh)
	if len(p.mu.idle) != 1 {
		t.Error("a connection to the process that took it just now is not kept")
	}
	p.renew()
}

// A connection that tells of no process takes back nothing of what was told.
func TestUnknownProcessIsIgnored(t *testing.T) {
	p := testPool("n", nil)
	link := func(boot uint64, reused bool) *upstreamConn {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		p.mu.open++
		return &upstreamConn{Conn: h1.NewConn(near, h1.Options{}), pool: p, boot: boot, shard: noShard, reused: reused}
	}
	p.setPeerProcess(2, 0)
	p.addDialed(link(0, false), nil)
	p.put(link(1, true))
	p.put(link(0, true))
	if len(p.mu.idle) != 2 || p.openConns() != 2 {
		t.Errorf("%d are idle of %d, want the two that tell of no process", len(p.mu.idle), p.openConns())
	}
	p.renew()
}

// A dial that finds another process than was told says that the one before is gone: what is idle
// to that one is closed, as if it had been told. A request went by it, and was taken for what its
// process ended with.
func TestDialRecordsPeerProcess(t *testing.T) {
	for _, told := range []bool{true, false} {
		for _, laned := range []bool{false, true} {
			p := testPool("n", nil)
			link := func(boot uint64, laned bool) *upstreamConn {
				near, far := net.Pipe()
				t.Cleanup(func() { _ = far.Close() })
				l := &upstreamConn{Conn: h1.NewConn(near, h1.Options{}), pool: p, boot: boot, shard: noShard}
				if laned {
					l.mux = struct{ muxStream }{}
				}
				p.mu.open++
				return l
			}
			if told {
				p.setPeerProcess(1, 0)
			}
			back := link(1, laned)
			p.put(link(1, laned))
			p.addDialed(link(2, false), nil)
			if n := p.openConns(); n != 2 || len(p.mu.idle) != 1 || p.mu.idle[0].boot != 2 || len(p.mu.idleStreams) != 0 {
				t.Errorf("told: %v, lanes: %v: %d are open, idle are %d and %d lanes, want the one in use and the new one", told, laned, n, len(p.mu.idle), len(p.mu.idleStreams))
			}
			p.put(back)
			if n := p.openConns(); n != 1 {
				t.Errorf("told: %v, lanes: %v: %d are open after one to the process before came back, want the new one", told, laned, n)
			}
			p.renew()
		}
	}
}

// An emptied disk counts boots from one again: by boots alone its process is taken for that which
// the node had on the disk before. One that does not say who it is yet is told by its boot.
func TestProcessesOfOneBootAreDistinguished(t *testing.T) {
	p := testPool("n", nil)
	put := func(boot, nonce uint64) *upstreamConn {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		l := &upstreamConn{Conn: h1.NewConn(near, h1.Options{}), pool: p, boot: boot, nonce: nonce, shard: noShard}
		p.mu.open++
		p.put(l)
		return l
	}
	put(1, 5)
	silent, same, taken := put(1, 0), put(1, 6), put(7, 6)
	put(2, 0)
	p.setPeerProcess(1, 6)
	if want := []*upstreamConn{silent, same, taken}; !slices.Equal(p.mu.idle, want) {
		t.Errorf("%d are kept, want those that may be to the present process", len(p.mu.idle))
	}
	if put(1, 5); p.openConns() != 3 {
		t.Error("one to the process before came back, and is kept")
	}
	p.renew()
}

// Who is in use as a pool is renewed carries no other request, whether its request began before
// or it was only asked for: it may lead to whom the renewal is for.
func TestConnInUseAtRenewalIsNotKept(t *testing.T) {
	made := func() *upstreamConn {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		return &upstreamConn{Conn: h1.NewConn(near, h1.Options{})}
	}
	asked, ends := make(chan struct{}), make(chan struct{})
	p := testPool("n", func(context.Context) (*upstreamConn, error) {
		asked <- struct{}{}
		<-ends
		return made(), nil
	})
	opened := func(laned bool) *upstreamConn {
		l := made()
		if laned {
			l.mux = struct{ muxStream }{}
		}
		return p.addStream(l)
	}
	used, laned := opened(false), opened(true)
	w := &waiter{shard: noShard}
	if _, _, err := p.join(w); err != nil {
		t.Fatal(err)
	}
	<-asked
	p.renew()
	close(ends)
	dialed := (<-w.granted).conn
	for _, l := range []*upstreamConn{used, laned, dialed} {
		p.put(l)
	}
	if n := p.openConns(); n != 0 {
		t.Errorf("%d of the three that were in use or asked for are kept", n)
	}
	p.put(opened(false))
	p.put(opened(true))
	if n := p.openConns(); n != 2 {
		t.Errorf("%d of the two opened since are kept", n)
	}
	p.renew()
	p.opts.Dialers.Wait()
}

// A waiter whose connection has been dialed, but not yet offered to it, causes no further dial.
func TestDialEndsWithItsOffer(t *testing.T) {
	near, far := net.Pipe()
	t.Cleanup(func() { _ = far.Close() })
	connected := make(chan struct{})
	p := testPool("n", func(context.Context) (*upstreamConn, error) {
		<-connected
		return &upstreamConn{Conn: h1.NewConn(near, h1.Options{})}, nil
	})
	w := &waiter{shard: noShard}
	if l, _, err := p.join(w); l != nil || err != nil {
		t.Fatal(l, err)
	}
	held := heldError{make(chan struct{})}
	p.breaker.Open(held) // the dial waits for it between its success and its offer
	close(connected)
	for start, dialed := time.Now(), false; !dialed; time.Sleep(time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatal("the dial does not succeed")
		}
		p.mu.Lock()
		if dialed = p.mu.dialed == 1; dialed {
			p.dialForWaiters() // as another request would that joins the queue or leaves it
		}
		p.mu.Unlock()
	}
	if n := p.openConns(); n != 1 {
		t.Errorf("%d connections are open or being dialed for one waiter", n)
	}
	close(held.released)
	got := <-w.granted
	if got.err != nil {
		t.Fatal(got.err)
	}
	p.put(got.conn)
	p.close()
}

// heldError is the cause of a tripped breaker. The breaker is not reset before released is closed,
// because a successful dial compares the cause.
type heldError struct{ released chan struct{} }

func (heldError) Error() string { return "refused" }

// Is implements the comparison of errors.Is.
func (e heldError) Is(error) bool {
	<-e.released
	return false
}
