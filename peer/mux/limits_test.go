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
	withRawPeer(t, true, func(r *rawPeer) {
		r.startReading()
		r.send(frameOpen, 1, nil)
		st := <-r.accepted
		for range Window / maxFrameData {
			r.send(frameData, 1, make([]byte, maxFrameData))
		}
		_, _ = io.ReadFull(st, make([]byte, Window/2-1))
		if n, _ := r.sent(frameWindowUpdate); n != 0 {
			t.Errorf("%d credits for less than half of the window", n)
		}
		_, _ = io.ReadFull(st, make([]byte, 1))
		if n, b := r.sent(frameWindowUpdate); n != 1 || binary.BigEndian.Uint32(b) != Window/2 {
			t.Errorf("%d credits of %x, want one of half", n, b)
		}
		r.send(frameEndStream, 1, nil)
		if got, err := io.ReadAll(st); len(got) != Window/2 || err != nil {
			t.Errorf("read %d bytes, %v", len(got), err)
		}
		if n, _ := r.sent(frameWindowUpdate); n != 1 {
			t.Errorf("%d credits, though no more bytes come", n)
		}
	})
}

// Credit adds up to the window at most, and each brings some: else the trunk is closed.
func TestCreditAddsUpToTheWindow(t *testing.T) {
	for _, n := range []uint32{0, 1, 2, Window + 1} {
		withRawPeer(t, false, func(r *rawPeer) {
			r.startReading()
			st, err := r.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			_, _ = st.Write([]byte("x"))
			r.send(frameWindowUpdate, st.id, binary.BigEndian.AppendUint32(nil, n))
			if (r.runErr == nil) != (n == 1) || n != 1 && !errors.Is(r.runErr, errProtocol) {
				t.Errorf("Run = %v after credit of %d bytes, where 1 is missing", r.runErr, n)
			}
		})
	}
}

// A lane that the other end has closed counts until this end has, too, and said so: who
// opens lanes and cuts them at once has no more of them worked on than it may.
func TestALaneCountsUntilBothEndsHaveClosedIt(t *testing.T) {
	withRawPeer(t, true, func(r *rawPeer) {
		r.startReading()
		for i, k := range []frameType{frameClose, frameReset} {
			lane := uint32(i + 1)
			r.send(frameOpen, lane, nil)
			r.send(k, lane, nil)
			_ = (<-r.accepted).Close()
		}
		if n, _ := r.sent(frameClose); n != 2 {
			t.Errorf("%d closes of lanes that are closed", n)
		}
	})
}

// The accepting end holds the other one to the bound: it refuses each lane beyond that, and
// serves those that there are.
func TestWhoOpensTooManyLanesIsGivenNoMore(t *testing.T) {
	withRawPeer(t, true, func(r *rawPeer) {
		r.accepted = make(chan *Stream, MaxStreams)
		r.startReading()
		var b []byte
		for i := range MaxStreams {
			b = appendFrame(b, frameOpen, uint32(i+1), nil)
		}
		_, _ = r.conn.Write(b)
		synctest.Wait()
		if r.runErr != nil || len(r.accepted) != MaxStreams {
			t.Fatalf("%d lanes are given, and the trunk ends with %v", len(r.accepted), r.runErr)
		}
		r.send(frameOpen, MaxStreams+1, nil)
		r.send(frameOpen, MaxStreams+2, nil)
		r.send(frameData, 1, []byte("x"))
		n, _ := r.sent(frameRefuse)
		if n != 2 || r.sentFrames[0].stream != MaxStreams+1 || len(r.sentFrames) != 2 || len(r.accepted) != MaxStreams || r.runErr != nil {
			t.Errorf("%d lanes are given after two more; it says %v, and the trunk ends with %v", len(r.accepted), r.sentFrames, r.runErr)
		}
		if got := make([]byte, 1); r.budget.InUse() != MaxStreams {
			t.Errorf("%d lanes count", r.budget.InUse())
		} else if n, err := (<-r.accepted).Read(got); n != 1 || err != nil {
			t.Errorf("Read = %d, %v of one that was taken", n, err)
		}
	})
}

// Numbers end: the lanes that there are go on, and the next one goes by another trunk.
func TestATrunkWithoutNumbersTakesNoMoreLanes(t *testing.T) {
	withRawPeer(t, false, func(r *rawPeer) {
		r.lastID = maxStreamID - 1
		if !r.CanOpen() {
			t.Error("it does not work with a number left")
		}
		st, err := r.OpenStream()
		if err != nil || st.id != maxStreamID {
			t.Fatalf("Open = %v", err)
		}
		if _, err := r.OpenStream(); !errors.Is(err, ErrDraining) || r.CanOpen() {
			t.Errorf("Open = %v, want %v; it works: %v", err, ErrDraining, r.CanOpen())
		}
		if !st.Quiet() {
			t.Error("the last lane broke")
		}
	})
}
