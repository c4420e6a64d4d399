package proxy

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	"shardway/proxy/h1"
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

// A close may take its time, over TLS above all. It was done while nobody else
// could get a connection or give one back.
func TestPoolClosesOutsideItsLock(t *testing.T) {
	here, there := net.Pipe()
	defer func() { _ = there.Close() }()
	fresh, far := net.Pipe()
	defer func() { _ = far.Close() }()
	s := New(Options{Room: queue.New(queue.Options{})})
	p := s.newPool("", func(context.Context) (*link, error) {
		return &link{Conn: h1.NewConn(fresh, h1.Options{})}, nil
	})
	p.max = 1
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
	p.mu.open, p.mu.idle = 1, []*link{{Conn: h1.NewConn(c, h1.Options{}), pool: p}}
	// It cannot be looked at, so a request that must not be sent twice needs another.
	if l := p.take(wanted{shard: unshared, fresh: true}); l != nil {
		t.Fatal("took what it cannot look at")
	}
	w := &waiter{place: unshared, fresh: true}
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
	if p.size() != 1 || len(p.mu.idle) != 0 {
		t.Errorf("%d open, %d idle; want 1, 0", p.size(), len(p.mu.idle))
	}
	p.drop(l)
}

// A stream that another node opened while this one stopped came to a closed pool,
// was told to look at the table again, and did so without a pause for as long as it
// lived: the table said as before that the app is here.
func TestClosedPoolOfTheAppIsNotLookedAtAgain(t *testing.T) {
	s := New(Options{Room: queue.New(queue.Options{})})
	for node, again := range map[string]bool{"": false, "b": true} {
		p := s.newPool(node, nil)
		p.closeIdle()
		if _, _, err := p.join(&waiter{place: unshared}); errors.Is(err, errLook) != again || err == nil {
			t.Errorf("join of the closed pool of %q = %v", node, err)
		}
	}
}

// A pool that another one has replaced opens no lane, and keeps none that comes back: what it
// knows of the node is of before. While the gate is shut nothing goes by a lane either.
func TestAClosedPoolGivesNoLanes(t *testing.T) {
	s := New(Options{Room: queue.New(queue.Options{})})
	p := s.newPool("b", nil)
	opened, ended := 0, 0
	p.lane = func() *link {
		opened++
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		c := closing{Conn: near, closed: func() { ended++ }}
		return &link{Conn: h1.NewConn(c, h1.Options{}), lane: carried{c: near}}
	}
	p.gate.close(errBusy)
	if p.takeLane() != nil || opened != 0 {
		t.Error("a lane is opened while the gate is shut")
	}
	p.gate.open()
	l := p.takeLane()
	if l == nil || p.size() != 1 {
		t.Fatalf("%v of %d", l, p.size())
	}
	p.closeIdle()
	if p.takeLane() != nil || opened != 2 || ended != 1 {
		t.Errorf("%d lanes are opened, and %d of them closed, want two and the second", opened, ended)
	}
	p.put(l)
	if p.size() != 0 || ended != 2 {
		t.Errorf("%d are open, and %d closed", p.size(), ended)
	}
}

// What is idle to a process of a node is closed once another one has followed it, and so is
// what comes back later. What tells of no process is nobody's.
func TestPoolFollowsTheProcessOfTheNode(t *testing.T) {
	s := New(Options{Room: queue.New(queue.Options{})})
	for _, laned := range []bool{false, true} {
		p := s.newPool("n", nil)
		open := map[uint64]bool{}
		fresh := func(boot uint64) *link {
			near, far := net.Pipe()
			t.Cleanup(func() { _ = far.Close() })
			open[boot] = true
			l := &link{Conn: h1.NewConn(closing{near, func() { open[boot] = false }}, h1.Options{}), pool: p, boot: boot, place: unshared}
			if laned {
				l.lane = struct{ lane }{}
			}
			p.mu.open++
			return l
		}
		back := fresh(3)
		for boot := range uint64(3) {
			p.put(fresh(boot))
		}
		p.follow(2, 0)
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
func TestWhoIsInLineGetsNothingThatIsOutlived(t *testing.T) {
	s := New(Options{Room: queue.New(queue.Options{})})
	ends := make(chan struct{})
	p := s.newPool("n", func(context.Context) (*link, error) { <-ends; return nil, context.Canceled })
	defer p.dialers.Wait()
	defer close(ends)
	link := func(boot uint64, reused bool) *link {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		p.mu.open++
		return &link{Conn: h1.NewConn(near, h1.Options{}), pool: p, boot: boot, place: unshared, reused: reused}
	}
	w := &waiter{place: unshared}
	if l, _, err := p.join(w); l != nil || err != nil {
		t.Fatal(l, err)
	}
	old := link(1, true)
	p.follow(2, 0)
	p.put(old)
	select {
	case got := <-w.turn:
		t.Fatalf("who is in line got a connection to process %d, and 2 has followed it", got.l.boot)
	default:
	}
	fresh := link(3, false)
	p.keep(fresh)
	if got := <-w.turn; got.l != fresh {
		t.Errorf("who is in line got one to process %d, want the one that was made now", got.l.boot)
	}
	p.put(fresh)
	if len(p.mu.idle) != 1 {
		t.Error("a connection to the process that took it just now is not kept")
	}
	p.renew()
}

// A connection that tells of no process takes back nothing of what was told.
func TestNobodyInParticularIsNotFollowed(t *testing.T) {
	s := New(Options{Room: queue.New(queue.Options{})})
	p := s.newPool("n", nil)
	link := func(boot uint64, reused bool) *link {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		p.mu.open++
		return &link{Conn: h1.NewConn(near, h1.Options{}), pool: p, boot: boot, place: unshared, reused: reused}
	}
	p.follow(2, 0)
	p.keep(link(0, false))
	p.put(link(1, true))
	p.put(link(0, true))
	if len(p.mu.idle) != 2 || p.size() != 2 {
		t.Errorf("%d are idle of %d, want the two that tell of no process", len(p.mu.idle), p.size())
	}
	p.renew()
}

// A dial that finds another process than was told says that the one before is gone: what is idle
// to that one is closed, as if it had been told. A request went by it, and was taken for what its
// process ended with.
func TestWhatADialFindsIsFollowed(t *testing.T) {
	s := New(Options{Room: queue.New(queue.Options{})})
	for _, told := range []bool{true, false} {
		for _, laned := range []bool{false, true} {
			p := s.newPool("n", nil)
			link := func(boot uint64, laned bool) *link {
				near, far := net.Pipe()
				t.Cleanup(func() { _ = far.Close() })
				l := &link{Conn: h1.NewConn(near, h1.Options{}), pool: p, boot: boot, place: unshared}
				if laned {
					l.lane = struct{ lane }{}
				}
				p.mu.open++
				return l
			}
			if told {
				p.follow(1, 0)
			}
			back := link(1, laned)
			p.put(link(1, laned))
			p.keep(link(2, false))
			if n := p.size(); n != 2 || len(p.mu.idle) != 1 || p.mu.idle[0].boot != 2 || len(p.mu.lanes) != 0 {
				t.Errorf("told: %v, lanes: %v: %d are open, idle are %d and %d lanes, want the one in use and the new one", told, laned, n, len(p.mu.idle), len(p.mu.lanes))
			}
			p.put(back)
			if n := p.size(); n != 1 {
				t.Errorf("told: %v, lanes: %v: %d are open after one to the process before came back, want the new one", told, laned, n)
			}
			p.renew()
		}
	}
}

// An emptied disk counts boots from one again: by boots alone its process is taken for that which
// the node had on the disk before. One that does not say who it is yet is told by its boot.
func TestProcessesOfOneBootAreToldApart(t *testing.T) {
	s := New(Options{Room: queue.New(queue.Options{})})
	p := s.newPool("n", nil)
	put := func(boot, nonce uint64) *link {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		l := &link{Conn: h1.NewConn(near, h1.Options{}), pool: p, boot: boot, nonce: nonce, place: unshared}
		p.mu.open++
		p.put(l)
		return l
	}
	put(1, 5)
	silent, same, taken := put(1, 0), put(1, 6), put(7, 6)
	put(2, 0)
	p.follow(1, 6)
	if want := []*link{silent, same, taken}; !slices.Equal(p.mu.idle, want) {
		t.Errorf("%d are kept, want those that may be to the present process", len(p.mu.idle))
	}
	if put(1, 5); p.size() != 3 {
		t.Error("one to the process before came back, and is kept")
	}
	p.renew()
}

// Who is in use as a pool is renewed carries no other request, whether its request began before
// or it was only asked for: it may lead to whom the renewal is for.
func TestWhatIsInUseAtARenewalIsNotKept(t *testing.T) {
	s := New(Options{Room: queue.New(queue.Options{})})
	made := func() *link {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		return &link{Conn: h1.NewConn(near, h1.Options{})}
	}
	asked, ends := make(chan struct{}), make(chan struct{})
	p := s.newPool("n", func(context.Context) (*link, error) {
		asked <- struct{}{}
		<-ends
		return made(), nil
	})
	opened := func(laned bool) *link {
		l := made()
		if laned {
			l.lane = struct{ lane }{}
		}
		return p.enlist(l)
	}
	used, laned := opened(false), opened(true)
	w := &waiter{place: unshared}
	if _, _, err := p.join(w); err != nil {
		t.Fatal(err)
	}
	<-asked
	p.renew()
	close(ends)
	dialed := (<-w.turn).l
	for _, l := range []*link{used, laned, dialed} {
		p.put(l)
	}
	if n := p.size(); n != 0 {
		t.Errorf("%d of the three that were in use or asked for are kept", n)
	}
	p.put(opened(false))
	p.put(opened(true))
	if n := p.size(); n != 2 {
		t.Errorf("%d of the two opened since are kept", n)
	}
	p.renew()
	p.dialers.Wait()
}
