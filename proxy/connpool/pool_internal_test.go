package connpool

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

// closing is a connection that reports its close on a channel.
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
func testPool(node string, dial func(context.Context) (*Conn, error)) *Pool {
	clock := new(coarsetime.Clock)
	clock.Start(time.Now())
	q := queue.New(queue.Options{})
	return New(Options{
		Queues: backoff.Queues{q, q, q},
		Node:   node, Dial: dial, Life: context.Background(), Dialers: new(sync.WaitGroup), Clock: clock, LongLived: &LongLivedLimit{Max: 3},
		Pacer: &wsession.ReconnectPacer{TimeLimit: time.Minute, MeasureDelay: func(time.Time) time.Duration { return 0 }},
	})
}

// A pool closes connections without its lock. A close may block, above all over TLS. Once, no other
// request could get or return a connection in the meantime.
func TestPoolClosesOutsideItsLock(t *testing.T) {
	here, there := net.Pipe()
	defer func() { _ = there.Close() }()
	fresh, far := net.Pipe()
	defer func() { _ = far.Close() }()
	p := testPool("", func(context.Context) (*Conn, error) {
		return &Conn{Conn: h1.NewConn(fresh, h1.Options{})}, nil
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
	p.mu.open, p.mu.idle.conns = 1, []*Conn{{Conn: h1.NewConn(c, h1.Options{}), Pool: p}}
	// The connection cannot be checked for a FIN, so a request that must not run twice needs another
	// one.
	if conn := p.Get(Requirements{Shard: NoShard, RequireRecent: true}); conn != nil {
		t.Fatal("took what it cannot look at")
	}
	waiter := &Waiter{Shard: NoShard, RequireRecent: true}
	conn, dialed, err := p.Join(waiter)
	if conn != nil || !dialed || err != nil {
		t.Fatalf("join = %v, %v, %v, want one to be dialed", conn, dialed, err)
	}
	if conn, err = p.Await(waiter, nil, time.Minute); err != nil {
		t.Fatal(err)
	}
	if !<-closed {
		t.Error("closed under the pool's lock")
	}
	if p.OpenConns() != 1 || len(p.mu.idle.conns) != 0 {
		t.Errorf("%d open, %d idle; want 1, 0", p.OpenConns(), len(p.mu.idle.conns))
	}
	p.Discard(conn)
}

// A closed pool of the app does not send its callers back to the routing table. Once, a stream that
// another node opened while this one stopped reached a closed pool and was told to read the table
// again. It did so in a busy loop, because the table still named the local app.
func TestClosedAppPoolIsNotReaped(t *testing.T) {
	for node, again := range map[string]bool{"": false, "b": true} {
		p := testPool(node, nil)
		p.Close()
		if _, _, err := p.Join(&Waiter{Shard: NoShard}); errors.Is(err, ErrRouteChanged) != again || err == nil {
			t.Errorf("join of the closed pool of %q = %v", node, err)
		}
	}
}

// A pool that was replaced opens no stream and keeps none that returns, because its data about the
// node is out of date. While the breaker is open, no stream is used either.
func TestClosedPoolOpensNoStreams(t *testing.T) {
	p := testPool("b", nil)
	opened, ended := 0, 0
	p.opts.OpenStream = func() *Conn {
		opened++
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		c := closing{Conn: near, closed: func() { ended++ }}
		return &Conn{Conn: h1.NewConn(c, h1.Options{}), Mux: struct{ MuxStream }{}}
	}
	p.Breaker.Open(ErrBusy)
	if p.GetStream() != nil || opened != 0 {
		t.Error("a lane is opened while the gate is shut")
	}
	p.Breaker.Reset()
	conn := p.GetStream()
	if conn == nil || p.OpenConns() != 1 {
		t.Fatalf("%v of %d", conn, p.OpenConns())
	}
	p.Close()
	if p.GetStream() != nil || opened != 2 || ended != 1 {
		t.Errorf("%d lanes are opened, and %d of them closed, want two and the second", opened, ended)
	}
	p.Put(conn)
	if p.OpenConns() != 0 || ended != 2 {
		t.Errorf("%d are open, and %d closed", p.OpenConns(), ended)
	}
}

// When a new process of a peer is detected, idle connections to other processes are closed, and so are
// connections to them that return later. A connection to an unknown process is not affected.
func TestPoolFollowsPeerProcess(t *testing.T) {
	for _, laned := range []bool{false, true} {
		p := testPool("n", nil)
		open := map[uint64]bool{}
		fresh := func(boot uint64) *Conn {
			near, far := net.Pipe()
			t.Cleanup(func() { _ = far.Close() })
			open[boot] = true
			conn := &Conn{Conn: h1.NewConn(closing{near, func() { open[boot] = false }}, h1.Options{}), Pool: p, Boot: boot, shard: NoShard}
			if laned {
				conn.Mux = struct{ MuxStream }{}
			}
			p.mu.open++
			return conn
		}
		back := fresh(3)
		for boot := range uint64(3) {
			p.Put(fresh(boot))
		}
		p.setPeerProcess(2, 0)
		if want := map[uint64]bool{0: true, 1: false, 2: true, 3: true}; !maps.Equal(open, want) {
			t.Errorf("lanes: %v: open by boot: %v, want %v", laned, open, want)
		}
		p.Put(back)
		if open[3] {
			t.Errorf("lanes: %v: one to another process came back, and is kept", laned)
		}
		p.Renew()
	}
}

// A waiting request does not get a connection to the previous process either. Such a connection may
// return late if its client is slow. A connection that is taken now belongs to the current process,
// whatever was reported.
func TestWaitersGetNoConnToPreviousProcess(t *testing.T) {
	ends := make(chan struct{})
	p := testPool("n", func(context.Context) (*Conn, error) { <-ends; return nil, context.Canceled })
	defer p.opts.Dialers.Wait()
	defer close(ends)
	link := func(boot uint64, reused bool) *Conn {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		p.mu.open++
		return &Conn{Conn: h1.NewConn(near, h1.Options{}), Pool: p, Boot: boot, shard: NoShard, Reused: reused}
	}
	waiter := &Waiter{Shard: NoShard}
	if conn, _, err := p.Join(waiter); conn != nil || err != nil {
		t.Fatal(conn, err)
	}
	old := link(1, true)
	p.setPeerProcess(2, 0)
	p.Put(old)
	select {
	case got := <-waiter.granted:
		t.Fatalf("who is in line got a connection to process %d, and 2 has followed it", got.conn.Boot)
	default:
	}
	fresh := link(3, false)
	p.addDialed(fresh, nil)
	if got := <-waiter.granted; got.conn != fresh {
		t.Errorf("who is in line got one to process %d, want the one that was made now", got.conn.Boot)
	}
	p.Put(fresh)
	if len(p.mu.idle.conns) != 1 {
		t.Error("a connection to the process that took it just now is not kept")
	}
	p.Renew()
}

// A connection with an unknown process does not change the recorded process.
func TestUnknownProcessIsIgnored(t *testing.T) {
	p := testPool("n", nil)
	link := func(boot uint64, reused bool) *Conn {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		p.mu.open++
		return &Conn{Conn: h1.NewConn(near, h1.Options{}), Pool: p, Boot: boot, shard: NoShard, Reused: reused}
	}
	p.setPeerProcess(2, 0)
	p.addDialed(link(0, false), nil)
	p.Put(link(1, true))
	p.Put(link(0, true))
	if len(p.mu.idle.conns) != 2 || p.OpenConns() != 2 {
		t.Errorf("%d are idle of %d, want the two that tell of no process", len(p.mu.idle.conns), p.OpenConns())
	}
	p.Renew()
}

// A dial that reaches a new process of the peer closes the idle connections to the previous one, as a
// report of the new process does. Once, a request used such a connection and was considered the cause
// of the crash of its process.
func TestDialRecordsPeerProcess(t *testing.T) {
	for _, told := range []bool{true, false} {
		for _, laned := range []bool{false, true} {
			p := testPool("n", nil)
			link := func(boot uint64, laned bool) *Conn {
				near, far := net.Pipe()
				t.Cleanup(func() { _ = far.Close() })
				conn := &Conn{Conn: h1.NewConn(near, h1.Options{}), Pool: p, Boot: boot, shard: NoShard}
				if laned {
					conn.Mux = struct{ MuxStream }{}
				}
				p.mu.open++
				return conn
			}
			if told {
				p.setPeerProcess(1, 0)
			}
			back := link(1, laned)
			p.Put(link(1, laned))
			p.addDialed(link(2, false), nil)
			if n := p.OpenConns(); n != 2 || len(p.mu.idle.conns) != 1 || p.mu.idle.conns[0].Boot != 2 || len(p.mu.idle.streams) != 0 {
				t.Errorf("told: %v, lanes: %v: %d are open, idle are %d and %d lanes, want the one in use and the new one", told, laned, n, len(p.mu.idle.conns), len(p.mu.idle.streams))
			}
			p.Put(back)
			if n := p.OpenConns(); n != 1 {
				t.Errorf("told: %v, lanes: %v: %d are open after one to the process before came back, want the new one", told, laned, n)
			}
			p.Renew()
		}
	}
}

// A node with an emptied disk counts its incarnations (boot) from one again. Its process must not be
// taken for the one with the same incarnation on the previous disk. A process without a known disk is
// identified by its incarnation.
func TestProcessesOfOneBootAreDistinguished(t *testing.T) {
	p := testPool("n", nil)
	put := func(boot, nonce uint64) *Conn {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		conn := &Conn{Conn: h1.NewConn(near, h1.Options{}), Pool: p, Boot: boot, Nonce: nonce, shard: NoShard}
		p.mu.open++
		p.Put(conn)
		return conn
	}
	put(1, 5)
	silent, same, taken := put(1, 0), put(1, 6), put(7, 6)
	put(2, 0)
	p.setPeerProcess(1, 6)
	if want := []*Conn{silent, same, taken}; !slices.Equal(p.mu.idle.conns, want) {
		t.Errorf("%d are kept, want those that may be to the present process", len(p.mu.idle.conns))
	}
	if put(1, 5); p.OpenConns() != 3 {
		t.Error("one to the process before came back, and is kept")
	}
	p.Renew()
}

// A connection that is in use or being dialed when a pool is renewed carries no later request, because
// it may lead to the peer that the renewal excludes.
func TestConnInUseAtRenewalIsNotKept(t *testing.T) {
	made := func() *Conn {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		return &Conn{Conn: h1.NewConn(near, h1.Options{})}
	}
	asked, ends := make(chan struct{}), make(chan struct{})
	p := testPool("n", func(context.Context) (*Conn, error) {
		asked <- struct{}{}
		<-ends
		return made(), nil
	})
	opened := func(laned bool) *Conn {
		conn := made()
		if laned {
			conn.Mux = struct{ MuxStream }{}
		}
		return p.addStream(conn)
	}
	used, laned := opened(false), opened(true)
	waiter := &Waiter{Shard: NoShard}
	if _, _, err := p.Join(waiter); err != nil {
		t.Fatal(err)
	}
	<-asked
	p.Renew()
	close(ends)
	dialed := (<-waiter.granted).conn
	for _, conn := range []*Conn{used, laned, dialed} {
		p.Put(conn)
	}
	if n := p.OpenConns(); n != 0 {
		t.Errorf("%d of the three that were in use or asked for are kept", n)
	}
	p.Put(opened(false))
	p.Put(opened(true))
	if n := p.OpenConns(); n != 2 {
		t.Errorf("%d of the two opened since are kept", n)
	}
	p.Renew()
	p.opts.Dialers.Wait()
}

// A waiter whose connection has been dialed, but not yet offered to it, causes no further dial.
func TestDialEndsWithItsOffer(t *testing.T) {
	near, far := net.Pipe()
	t.Cleanup(func() { _ = far.Close() })
	connected := make(chan struct{})
	p := testPool("n", func(context.Context) (*Conn, error) {
		<-connected
		return &Conn{Conn: h1.NewConn(near, h1.Options{})}, nil
	})
	waiter := &Waiter{Shard: NoShard}
	if conn, _, err := p.Join(waiter); conn != nil || err != nil {
		t.Fatal(conn, err)
	}
	held := heldError{make(chan struct{})}
	p.Breaker.Open(held) // the dial blocks here between its success and its offer
	close(connected)
	for start, dialed := time.Now(), false; !dialed; time.Sleep(time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatal("the dial does not succeed")
		}
		p.mu.Lock()
		if dialed = p.mu.dials.succeeded == 1; dialed {
			p.dialForWaiters() // as another request does that joins or leaves the queue
		}
		p.mu.Unlock()
	}
	if n := p.OpenConns(); n != 1 {
		t.Errorf("%d connections are open or being dialed for one waiter", n)
	}
	close(held.released)
	got := <-waiter.granted
	if got.err != nil {
		t.Fatal(got.err)
	}
	p.Put(got.conn)
	p.Close()
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
