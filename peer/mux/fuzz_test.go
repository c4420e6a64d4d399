package mux

import (
	"bytes"
	"io"
	"net"
	"testing"
)

// FuzzFrames takes any bytes for frames: what is taken for one is written as it came.
func FuzzFrames(f *testing.F) {
	f.Add(appendFrame(appendFrame(nil, kindOpen, 1, nil), kindData, 1, []byte("GET / HTTP/1.1\r\n\r\n")))
	f.Add(appendFrame(appendFrame(nil, kindCredit, 7, []byte{0, 0, 1, 0}), kindPing, 0, nil))
	f.Add([]byte{0xff, 0xff, 0xff, 2, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			fr, n, err := cutFrame(b)
			if err != nil || n == 0 {
				return
			}
			if again := appendFrame(nil, fr.kind, fr.lane, fr.data); !bytes.Equal(again, b[:n]) {
				t.Fatalf("%x is read as %+v, which is %x", b[:n], fr, again)
			}
			b = b[n:]
		}
	})
}

// script is a connection that brings some bytes and takes any.
type script struct {
	net.Conn
	r *bytes.Reader
}

func (s script) Read(p []byte) (int, error)  { return s.r.Read(p) }
func (s script) Write(p []byte) (int, error) { return len(p), nil }
func (s script) Close() error                { return nil }

// FuzzTrunk has the other end say anything: nothing panics, no lane keeps more than its
// window, and each brings the bytes of its frames up to its end, and no others.
func FuzzTrunk(f *testing.F) {
	add := func(frames ...frame) {
		var b []byte
		for _, fr := range frames {
			b = appendFrame(b, fr.kind, fr.lane, fr.data)
		}
		f.Add(b)
	}
	add(frame{kindOpen, 1, nil}, frame{kindData, 1, []byte("ab")}, frame{kindOpen, 2, nil}, frame{kindData, 2, []byte("x")}, frame{kindData, 1, []byte("c")}, frame{kindEnd, 1, nil}, frame{kindData, 1, []byte("late")})
	add(frame{kindOpen, 9, nil}, frame{kindReset, 9, nil}, frame{kindData, 9, []byte("late")}, frame{kindClose, 9, nil})
	add(frame{kindOpen, 1, nil}, frame{kindOpen, 2, nil}, frame{kindData, 1, make([]byte, 300)}, frame{kindCredit, 2, []byte{0, 0, 0, 1}})
	add(frame{kindOpen, 1, nil}, frame{kindPing, 0, nil}, frame{kindPong, 0, nil}, frame{kindLast, 1, nil}, frame{kindData, 1, []byte("late")})
	f.Fuzz(func(t *testing.T, b []byte) {
		var lanes []*Lane
		tr := newTrunk(script{r: bytes.NewReader(b)}, NewBudget(MaxLanes, nil), func(l *Lane) bool { lanes = append(lanes, l); return true })
		why := tr.Run()
		want := expected(b)
		if len(lanes) > len(want) {
			t.Fatalf("%d lanes of %d that were opened", len(lanes), len(want))
		}
		for _, l := range lanes {
			got, err := io.ReadAll(l)
			if len(got) > Window || !bytes.Equal(got, want[l.id].data) {
				t.Fatalf("lane %d brings %q, want %q", l.id, got, want[l.id].data)
			}
			if (err == nil) != want[l.id].whole {
				t.Fatalf("lane %d ends with %v (the trunk with %v); whole: %v", l.id, err, why, want[l.id].whole)
			}
		}
	})
}

// said is what a lane was told, read from the frames alone.
type said struct {
	data  []byte
	over  bool // nothing that comes now is its
	whole bool
}

// expected goes through the frames without credit given back: nobody has read yet.
func expected(b []byte) map[uint32]*said {
	lanes := make(map[uint32]*said)
	last := uint32(0)
	for {
		f, n, err := cutFrame(b)
		if err != nil || n == 0 {
			return lanes
		}
		b = b[n:]
		l := lanes[f.lane]
		switch {
		case f.kind == kindPing:
		case f.kind == kindOpen && f.lane > last:
			if last = f.lane; len(lanes) < MaxLanes { // none is closed here
				lanes[f.lane] = new(said)
			}
		case f.kind == kindOpen || f.kind == kindLast || f.lane > last:
			return lanes
		case l == nil || l.over:
		case f.kind == kindCredit:
			return lanes // none was used: it is above the window, or nothing
		case f.kind == kindData && l.whole:
			// Behind the end: nobody's, but it counts.
			if len(l.data)+len(f.data) > Window {
				return lanes
			}
		case f.kind == kindData && len(l.data)+len(f.data) > Window:
			return lanes
		case f.kind == kindData:
			l.data = append(l.data, f.data...)
		default:
			l.over = f.kind != kindEnd
			l.whole = l.whole || f.kind != kindReset
			if f.kind == kindReset {
				l.whole = false
			}
		}
	}
}
