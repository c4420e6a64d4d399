package mux

import (
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/synctest"
)

// Credit is returned in halves of the window, and not after the end of the stream.
func TestCreditIsReturnedInHalves(t *testing.T) {
	withRawPeer(t, true, func(r *rawPeer) {
		r.startReading()
		r.send(frameOpen, 1, nil)
		st := <-r.accepted
		for range Window / maxFrameData {
			r.send(frameData, 1, make([]byte, maxFrameData))
		}
		_, _ = io.ReadFull(st, make([]byte, Window/2-1))
		if n, _ := r.sent(frameWindowUpdate); n != 0 {
			t.Errorf("%d window updates for less than half of the window", n)
		}
		_, _ = io.ReadFull(st, make([]byte, 1))
		if n, b := r.sent(frameWindowUpdate); n != 1 || binary.BigEndian.Uint32(b) != Window/2 {
			t.Errorf("%d window updates of %x, want one of half", n, b)
		}
		r.send(frameEndStream, 1, nil)
		if got, err := io.ReadAll(st); len(got) != Window/2 || err != nil {
			t.Errorf("read %d bytes, %v", len(got), err)
		}
		if n, _ := r.sent(frameWindowUpdate); n != 1 {
			t.Errorf("%d window updates, after the end of the stream", n)
		}
	})
}

// A window update must grant at least one byte, and credit must not exceed the window. Otherwise
// the session fails.
func TestCreditIsLimitedToWindow(t *testing.T) {
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
				t.Errorf("Run = %v after credit of %d bytes, where 1 byte was used", r.runErr, n)
			}
		})
	}
}

// This end answers the close or reset of the peer with a close frame: the stream counts at the
// peer until then, so a peer that opens and resets streams cannot exceed the stream limit.
func TestStreamClosedByPeerIsAnsweredWithClose(t *testing.T) {
	withRawPeer(t, true, func(r *rawPeer) {
		r.startReading()
		for i, k := range []frameType{frameClose, frameReset} {
			stream := uint32(i + 1)
			r.send(frameOpen, stream, nil)
			r.send(k, stream, nil)
			_ = (<-r.accepted).Close()
		}
		if n, _ := r.sent(frameClose); n != 2 {
			t.Errorf("%d close frames, want 2", n)
		}
	})
}

// The server refuses each stream over the limit, and serves the others.
func TestStreamsBeyondLimitAreRefused(t *testing.T) {
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
			t.Fatalf("%d streams were accepted, and Run = %v", len(r.accepted), r.runErr)
		}
		r.send(frameOpen, MaxStreams+1, nil)
		r.send(frameOpen, MaxStreams+2, nil)
		r.send(frameData, 1, []byte("x"))
		n, _ := r.sent(frameRefuse)
		if n != 2 || r.sentFrames[0].stream != MaxStreams+1 || len(r.sentFrames) != 2 || len(r.accepted) != MaxStreams || r.runErr != nil {
			t.Errorf("%d streams were accepted after two more; sent %v, and Run = %v", len(r.accepted), r.sentFrames, r.runErr)
		}
		if got := make([]byte, 1); r.budget.InUse() != MaxStreams {
			t.Errorf("%d streams are in use", r.budget.InUse())
		} else if n, err := (<-r.accepted).Read(got); n != 1 || err != nil {
			t.Errorf("Read = %d, %v of an accepted stream", n, err)
		}
	})
}

// A session without free stream IDs opens no more streams. Existing streams continue.
func TestSessionOutOfStreamIDsOpensNoStreams(t *testing.T) {
	withRawPeer(t, false, func(r *rawPeer) {
		r.lastID = maxStreamID - 1
		if !r.CanOpen() {
			t.Error("CanOpen = false with one ID left")
		}
		st, err := r.OpenStream()
		if err != nil || st.id != maxStreamID {
			t.Fatalf("OpenStream = %v", err)
		}
		if _, err := r.OpenStream(); !errors.Is(err, ErrDraining) || r.CanOpen() {
			t.Errorf("OpenStream = %v, want %v; CanOpen = %v", err, ErrDraining, r.CanOpen())
		}
		if !st.WouldBlock() {
			t.Error("the last stream failed")
		}
	})
}
