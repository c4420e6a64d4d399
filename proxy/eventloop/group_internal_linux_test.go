package eventloop

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shardway/internal/rawio"
)

// After a temporary lack of descriptors, event loops are tried again. On a system without support for
// event loops, they are not.
func TestEventLoopIsTriedAgain(t *testing.T) {
	g := &Group{}
	g.Open()
	defer g.Close()
	failing := unix.EMFILE
	g.NewPoller = func() (*rawio.Poller, error) { return nil, failing }
	if g.pick() != nil {
		t.Fatal("a loop without a descriptor")
	}
	g.NewPoller = nil
	if g.pick() == nil {
		t.Error("no loop, though there are descriptors again")
	}

	tries := 0
	none := &Group{NewPoller: func() (*rawio.Poller, error) { tries++; return nil, errors.ErrUnsupported }}
	none.Open()
	defer none.Close()
	for range 3 {
		if none.pick() != nil {
			t.Error("a loop where there are none")
		}
	}
	if tries != 1 {
		t.Errorf("tried %d times where there are none, want once", tries)
	}
}

// The number of event loops follows the load, up to the number of processors. A loop is ended only
// after it was unnecessary for a while.
func TestEventLoopCountFollowsLoad(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	g := &Group{}
	g.Open()
	defer g.Close()
	if g.pick() == nil {
		t.Fatal("there is no loop")
	}
	g.loops[0].clientCount.Store(1)
	for i, look := range []struct {
		busy []time.Duration // of each loop, per second
		want int
	}{
		{[]time.Duration{time.Second / 2}, 1},
		{[]time.Duration{time.Second * 3 / 4}, 2},
		{[]time.Duration{time.Second / 4, time.Second / 2}, 2},
		{[]time.Duration{time.Second / 4, time.Second}, 3},
		{[]time.Duration{time.Second, time.Second, time.Second}, 3}, // limited by the number of processors
		{[]time.Duration{time.Second / 4, time.Second / 4, time.Second / 4}, 3},
		{nil, 3},
		{nil, 3},
		{nil, 3},
		{[]time.Duration{time.Second, time.Second / 10}, 3}, // the loop is needed again
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
		g.Balance(time.Second)
		if g.active != look.want {
			t.Fatalf("after look %d there are %d, want %d", i, g.active, look.want)
		}
	}
}

// A connection with ineligible requests is tried less and less often. After it was eligible for a
// while, the back-off starts again.
func TestEligibilityBackoffDoublesAndEnds(t *testing.T) {
	var h Eligibility
	for _, want := range []int{minSkip, 2 * minSkip, 4 * minSkip} {
		if h.RecordMiss(); h.skip != want {
			t.Fatalf("it rests for %d, want %d", h.skip, want)
		}
	}
	for range resetAfter - 1 {
		h.recordHit()
	}
	if h.RecordMiss(); h.skip != 8*minSkip {
		t.Fatalf("it rests for %d, want %d", h.skip, 8*minSkip)
	}
	for range 20 {
		h.RecordMiss()
	}
	if h.skip != maxSkip {
		t.Fatalf("it rests for %d at most, want %d", h.skip, maxSkip)
	}
	for range resetAfter {
		h.recordHit()
	}
	if h.RecordMiss(); h.skip != minSkip {
		t.Fatalf("it rests for %d after it was good for loops, want %d", h.skip, minSkip)
	}
}
