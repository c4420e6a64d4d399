package mux

import (
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/synctest"
)

// Credit goes back by halves of the window, and not for what needs none any more.
func TestCreditGoesBackByHalves(t *testing.T) {
	withRaw(t, true, func(r *raw) {
		r.hears()
		r.says(kindOpen, 1, nil)
		l := <-r.given
		for range Window / maxData {
			r.says(kindData, 1, make([]byte, maxData))
		}
		_, _ = io.ReadFull(l, make([]byte, Window/2-1))
		if n, _ := r.sent(kindCredit); n != 0 {
			t.Errorf("%d credits for less than half of the window", n)
		}
		_, _ = io.ReadFull(l, make([]byte, 1))
		if n, b := r.sent(kindCredit); n != 1 || binary.BigEndian.Uint32(b) != Window/2 {
			t.Errorf("%d credits of %x, want one of half", n, b)
		}
		r.says(kindEnd, 1, nil)
		if got, err := io.ReadAll(l); len(got) != Window/2 || err != nil {
			t.Errorf("read %d bytes, %v", len(got), err)
		}
		if n, _ := r.sent(kindCredit); n != 1 {
			t.Errorf("%d credits, though no more bytes come", n)
		}
	})
}

// Credit adds up to the window at most, and each brings some: else the trunk is closed.
func TestCreditAddsUpToTheWindow(t *testing.T) {
	for _, n := range []uint32{0, 1, 2, Window + 1} {
		withRaw(t, false, func(r *raw) {
			r.hears()
			l, err := r.Open()
			if err != nil {
				t.Fatal(err)
			}
			_, _ = l.Write([]byte("x"))
			r.says(kindCredit, l.id, binary.BigEndian.AppendUint32(nil, n))
			if (r.ended == nil) != (n == 1) || n != 1 && !errors.Is(r.ended, errFrame) {
				t.Errorf("Run = %v after credit of %d bytes, where 1 is missing", r.ended, n)
			}
		})
	}
}

// A lane that the other end has closed counts until this end has, too, and said so: who
// opens lanes and cuts them at once has no more of them worked on than it may.
func TestALaneCountsUntilBothEndsHaveClosedIt(t *testing.T) {
	withRaw(t, true, func(r *raw) {
		r.hears()
		for i, k := range []kind{kindClose, kindReset} {
			lane := uint32(i + 1)
			r.says(kindOpen, lane, nil)
			r.says(k, lane, nil)
			_ = (<-r.given).Close()
		}
		if n, _ := r.sent(kindClose); n != 2 {
			t.Errorf("%d closes of lanes that are closed", n)
		}
	})
}

// The accepting end holds the other one to the bound: it refuses each lane beyond that, and
// serves those that there are.
func TestWhoOpensTooManyLanesIsGivenNoMore(t *testing.T) {
	withRaw(t, true, func(r *raw) {
		r.given = make(chan *Lane, MaxLanes)
		r.hears()
		var b []byte
		for i := range MaxLanes {
			b = appendFrame(b, kindOpen, uint32(i+1), nil)
		}
		_, _ = r.far.Write(b)
		synctest.Wait()
		if r.ended != nil || len(r.given) != MaxLanes {
			t.Fatalf("%d lanes are given, and the trunk ends with %v", len(r.given), r.ended)
		}
		r.says(kindOpen, MaxLanes+1, nil)
		r.says(kindOpen, MaxLanes+2, nil)
		r.says(kindData, 1, []byte("x"))
		n, _ := r.sent(kindRefuse)
		if n != 2 || r.frames[0].lane != MaxLanes+1 || len(r.frames) != 2 || len(r.given) != MaxLanes || r.ended != nil {
			t.Errorf("%d lanes are given after two more; it says %v, and the trunk ends with %v", len(r.given), r.frames, r.ended)
		}
		if got := make([]byte, 1); r.budget.Lent() != MaxLanes {
			t.Errorf("%d lanes count", r.budget.Lent())
		} else if n, err := (<-r.given).Read(got); n != 1 || err != nil {
			t.Errorf("Read = %d, %v of one that was taken", n, err)
		}
	})
}

// Numbers end: the lanes that there are go on, and the next one goes by another trunk.
func TestATrunkWithoutNumbersTakesNoMoreLanes(t *testing.T) {
	withRaw(t, false, func(r *raw) {
		r.last = lastNumber - 1
		if !r.Works() {
			t.Error("it does not work with a number left")
		}
		l, err := r.Open()
		if err != nil || l.id != lastNumber {
			t.Fatalf("Open = %v", err)
		}
		if _, err := r.Open(); !errors.Is(err, ErrRetired) || r.Works() {
			t.Errorf("Open = %v, want %v; it works: %v", err, ErrRetired, r.Works())
		}
		if !l.Quiet() {
			t.Error("the last lane broke")
		}
	})
}
