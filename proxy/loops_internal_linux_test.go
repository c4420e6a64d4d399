package proxy

import (
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shardway/internal/rawio"
	"shardway/proxy/h1"
)

// A moment without descriptors is not for ever; a system without loops is.
func TestLoopIsTriedAgain(t *testing.T) {
	g := &loops{s: &Server{}}
	g.open(g.s)
	defer g.close()
	failing := unix.EMFILE
	g.fresh = func() (*loop, error) { return nil, failing }
	if g.pick() != nil {
		t.Fatal("a loop without a descriptor")
	}
	g.fresh = nil
	if g.pick() == nil {
		t.Error("no loop, though there are descriptors again")
	}

	tries := 0
	none := &loops{s: &Server{}, fresh: func() (*loop, error) { tries++; return nil, errors.ErrUnsupported }}
	none.open(none.s)
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
func TestLoopsAreAsManyAsAreBusy(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	g := &loops{s: &Server{}}
	g.open(g.s)
	defer g.close()
	if g.pick() == nil {
		t.Fatal("there is no loop")
	}
	g.all[0].many.Store(1)
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
			g.all[j].busy.Store(int64(busy))
		}
		g.balance(time.Second)
		if g.now != look.want {
			t.Fatalf("after look %d there are %d, want %d", i, g.now, look.want)
		}
	}
}

// Who is no good for loops is tried less and less, and anew once it has been for a while.
func TestHabitDoublesAndEnds(t *testing.T) {
	var h habit
	for _, want := range []int{restFirst, 2 * restFirst, 4 * restFirst} {
		if h.unfit(); h.rests != want {
			t.Fatalf("it rests for %d, want %d", h.rests, want)
		}
	}
	for range restOver - 1 {
		h.fits()
	}
	if h.unfit(); h.rests != 8*restFirst {
		t.Fatalf("it rests for %d, want %d", h.rests, 8*restFirst)
	}
	for range 20 {
		h.unfit()
	}
	if h.rests != restMost {
		t.Fatalf("it rests for %d at most, want %d", h.rests, restMost)
	}
	for range restOver {
		h.fits()
	}
	if h.unfit(); h.rests != restFirst {
		t.Fatalf("it rests for %d after it was good for loops, want %d", h.rests, restFirst)
	}
}

// Of a parked connection only the socket is kept, so what has been read of a client that speaks
// would be lost, and what comes behind it taken for a request.
func TestWhatHasBeenReadIsNotParked(t *testing.T) {
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
	l := &lot{within: t.Context(), conns: &s.conns, clock: &s.clock, hands: newCrew(func(guest) {})}
	defer l.close()
	c := newClient(t.Context(), s, conn, "")
	l.welcome(c, guest{conn: conn})
	s.conns.add(c)
	defer func() { _ = c.h.Close() }()
	if _, err = io.WriteString(far, "GET / HT"); err != nil {
		t.Fatal(err)
	}
	if some, err := c.h.Wait(10 * time.Second); !some || err != nil {
		t.Fatalf("nothing has come: %v", err)
	}
	if c.park() {
		t.Error("it is parked, with half a head that was read")
	}
	s.conns.remove(c)
}

// A loop takes a link for quiet that has rested while the loop waited, and was told of all.
func TestQuietIsWhatRestedWhileTheLoopWaited(t *testing.T) {
	for _, at := range []struct {
		rested, waits uint64
		spoke, want   bool
	}{
		{0, 5, false, false},
		{4, 5, false, true},
		{5, 5, false, false}, // it has not waited since
		{4, 5, true, false},
	} {
		if got := (&perch{spoke: at.spoke}).quiet(at.rested, at.waits); got != at.want {
			t.Errorf("%+v: %v", at, got)
		}
	}
}

// What one loop knows of a link says nothing to another, nor what it knew before that.
func TestLinkIsQuietToTheLoopThatHasHeardIt(t *testing.T) {
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	k := &link{Conn: h1.NewConn(rawio.Adopt(conn), h1.Options{Direct: true})}
	defer func() { _ = k.Close() }()
	c := &client{}
	var loops [2]*loop
	for i := range loops {
		lookout, err := rawio.NewLookout()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = lookout.Close() }()
		loops[i] = &loop{lookout: lookout, waits: 9, all: true, perches: make(map[uint64]*perch)}
	}
	for i, at := range []struct {
		by   int
		all  bool
		want bool
	}{
		{0, true, false}, // it has not rested
		{0, true, true},
		{0, false, false},
		{0, true, true},
		{1, true, false},
		{1, true, true},
		{0, true, false},
	} {
		l := loops[at.by]
		l.all = at.all
		if !l.fly(k, c) || k.quiet != at.want {
			t.Errorf("%d: quiet %v, want %v", i, k.quiet, at.want)
		}
		l.land(c)
		k.Heed(nil)
		k.rested = 8
	}
}
