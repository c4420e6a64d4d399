package peer_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"shardway/peer"
)

func TestFramesComeBackInOrder(t *testing.T) {
	var wire bytes.Buffer
	msgs := [][]byte{[]byte("one"), {}, bytes.Repeat([]byte("x"), 200_000), []byte("last")}
	for _, m := range msgs {
		if err := peer.WriteFrame(&wire, m); err != nil {
			t.Fatal(err)
		}
	}
	var buf []byte
	for i, want := range msgs {
		got, err := peer.ReadFrame(&wire, buf, peer.MaxFrame)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("frame %d: %d bytes, %v, want %d", i, len(got), err, len(want))
		}
		buf = got
	}
	if _, err := peer.ReadFrame(&wire, buf, peer.MaxFrame); !errors.Is(err, io.EOF) {
		t.Errorf("after the last: %v, want io.EOF", err)
	}
}

func TestFramesAreBounded(t *testing.T) {
	if err := peer.WriteFrame(io.Discard, make([]byte, peer.MaxFrame+1)); !errors.Is(err, peer.ErrFrameTooLarge) {
		t.Errorf("WriteFrame = %v, want ErrFrameTooLarge", err)
	}
	for _, tc := range []struct {
		wire  string
		limit int
	}{
		{"\x00\x00\x00\x05hello", 4},
		{"\xff\xff\xff\xff", 1 << 40},
		{"\x00\x00\x00\x01x", 0},
	} {
		if _, err := peer.ReadFrame(bytes.NewReader([]byte(tc.wire)), nil, tc.limit); !errors.Is(err, peer.ErrFrameTooLarge) {
			t.Errorf("ReadFrame(%q, limit %d) = %v, want ErrFrameTooLarge", tc.wire, tc.limit, err)
		}
	}
}

func TestCutFrameIsNotTheEnd(t *testing.T) {
	wire := []byte("\x00\x00\x00\x05hello")
	for i := 1; i < len(wire); i++ {
		if _, err := peer.ReadFrame(bytes.NewReader(wire[:i]), nil, 10); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d: %v, want io.ErrUnexpectedEOF", i, err)
		}
	}
}

// greedy records the largest read.
type greedy struct {
	io.Reader
	most int
}

func (g *greedy) Read(p []byte) (int, error) {
	g.most = max(g.most, len(p))
	return g.Reader.Read(p)
}

// The length field of a frame is not trusted: memory is allocated as its bytes arrive.
func TestFrameLengthIsNotPreallocated(t *testing.T) {
	g := &greedy{Reader: bytes.NewReader([]byte("\x00\x0f\xff\xffabc"))}
	if _, err := peer.ReadFrame(g, nil, peer.MaxFrame); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("ReadFrame = %v, want io.ErrUnexpectedEOF", err)
	}
	if g.most > 64<<10 {
		t.Errorf("made room for %d bytes on a claim, want 64 KiB at most", g.most)
	}
}

func TestReadFrameReusesItsBuffer(t *testing.T) {
	wire := []byte("\x00\x00\x00\x05hello")
	r := bytes.NewReader(wire)
	buf := make([]byte, 0, 64)
	allocs := testing.AllocsPerRun(100, func() {
		r.Reset(wire)
		var err error
		if buf, err = peer.ReadFrame(r, buf, 64); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 1 { // for the length bytes, which escape through io.Reader
		t.Errorf("%v allocations per frame, want at most 1", allocs)
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x05hello"), 16)
	f.Fuzz(func(t *testing.T, wire []byte, limit int) {
		b, err := peer.ReadFrame(bytes.NewReader(wire), nil, limit)
		if err != nil {
			return
		}
		if len(b) > limit {
			t.Fatalf("%d bytes read with a limit of %d", len(b), limit)
		}
		var out bytes.Buffer
		if err := peer.WriteFrame(&out, b); err != nil || !bytes.HasPrefix(wire, out.Bytes()) {
			t.Fatalf("%q does not come back: %q, %v", wire, out.Bytes(), err)
		}
	})
}
