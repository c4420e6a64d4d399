package proxy

import (
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shardway/internal/workerpool"
)

// A moment without descriptors is not for ever; a system without loops is.
func TestEventLoopIsTriedAgain(t *testing.T) {
	g := &eventLoopGroup{server: &Server{}}
	g.open(g.server)
	defer g.close()
	failing := unix.EMFILE
	g.newLoop = func() (*eventLoop, error) { return nil, failing }
	if g.pick() != nil {
		t.Fatal("a loop without a descriptor")
	}
	g.newLoop = nil
	if g.pick() == nil {
		t.Error("no loop, though there are descriptors again")
	}

	tries := 0
	none := &eventLoopGroup{server: &Server{}, newLoop: func() (*eventLoop, error) { tries++; return nil, errors.ErrUnsupported }}
	none.open(none.server)
	defer none.close()
	for range 3 {
		if none.pick() != nil {
			t.Error("a loop where there are none")
		}
	}
	if tries != 1 {
		t.Errorf("tried %d times where there are none, want once", tries)
	}
}

// Loops are as many as are busy, and no more than there are processors; and they give up one
// only when it has not been needed for a while.
func TestEventLoopCountFollowsLoad(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	g := &eventLoopGroup{server: &Server{}}
	g.open(g.server)
	defer g.close()
	if g.pick() == nil {
		t.Fatal("there is no loop")
	}
	g.loops[0].clientCount.Store(1)
	for i, look := range []struct {
		busy []time.Duration // of each in a second
		want int
	}{
		{[]time.Duration{time.Second / 2}, 1},
		{[]time.Duration{time.Second * 3 / 4}, 2},
		{[]time.Duration{time.Second / 4, time.Second / 2}, 2},
		{[]time.Duration{time.Second / 4, time.Second}, 3},
		{[]time.Duration{time.Second, time.Second, time.Second}, 3}, // there are no more processors
		{[]time.Duration{time.Second / 4, time.Second / 4, time.Second / 4}, 3},
		{nil, 3},
		{nil, 3},
		{nil, 3},
		{[]time.Duration{time.Second, time.Second / 10}, 3}, // it is needed again
		{nil, 3},
		{nil, 3},
		{nil, 3},
		{nil, 3},
		{nil, 2},
		{nil, 2},
		{nil, 2},
		{nil, 2},
		{nil, 2},
		{nil, 1},
		{nil, 1},
	} {
		for j, busy := range look.busy {
			g.loops[j].busyNanos.Store(int64(busy))
		}
		g.balance(time.Second)
		if g.active != look.want {
			t.Fatalf("after look %d there are %d, want %d", i, g.active, look.want)
		}
	}
}

// Who is no good for loops is tried less and less, and anew once it has been for a while.
func TestEligibilityBackoffDoublesAndEnds(t *testing.T) {
	var h loopEligibility
	for _, want := range []int{minSkip, 2 * minSkip, 4 * minSkip} {
		if h.recordMiss(); h.skip != want {
			t.Fatalf("it rests for %d, want %d", h.skip, want)
		}
	}
	for range resetAfter - 1 {
		h.recordHit()
	}
	if h.recordMiss(); h.skip != 8*minSkip {
		t.Fatalf("it rests for %d, want %d", h.skip, 8*minSkip)
	}
	for range 20 {
		h.recordMiss()
	}
	if h.skip != maxSkip {
		t.Fatalf("it rests for %d at most, want %d", h.skip, maxSkip)
	}
	for range resetAfter {
		h.recordHit()
	}
	if h.recordMiss(); h.skip != minSkip {
		t.Fatalf("it rests for %d after it was good for loops, want %d", h.skip, minSkip)
	}
}

// Of a parked connection only the socket is kept, so what has been read of a client that speaks
// would be lost, and what comes behind it taken for a request.
func TestBufferedDataPreventsParking(t *testing.T) {
	s := spareServer()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	far := caller(t, ln.Addr().String())
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	l := &idleWatcher{parentCtx: t.Context(), clock: &s.clock, workers: workerpool.New(func(job) {})}
	defer l.sockets.Close()
	c := newClient(t.Context(), s, conn, "")
	l.initClient(c, job{conn: conn})
	s.conns.add(c)
	defer func() { _ = c.conn.Close() }()
	if _, err = io.WriteString(far, "GET / HT"); err != nil {
		t.Fatal(err)
	}
	if some, err := c.conn.WaitReadable(10 * time.Second); !some || err != nil {
		t.Fatalf("nothing has come: %v", err)
	}
	if c.parkConn() {
		t.Error("it is parked, with half a head that was read")
	}
	s.conns.remove(c)
}
