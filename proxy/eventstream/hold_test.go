package eventstream_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"shardway/proxy/eventstream"
)

// scanInSteps scans the bytes of one connection in parts of step bytes.
func scanInSteps(t *testing.T, s *eventstream.Scanner, h *eventstream.Buffer, out *bytes.Buffer, p []byte, step int) {
	t.Helper()
	for len(p) > 0 {
		part := p[:min(step, len(p))]
		if err := h.Write(out, part, s.Next(part)); err != nil {
			t.Fatal(err)
		}
		p = p[len(part):]
	}
}

// wholeOf returns the length of the complete events at the beginning of p.
func wholeOf(p []byte) int {
	for i := len(p); i > 0; i-- {
		if read(p[:i], reading{}).between {
			return i
		}
	}
	return 0
}

// After a stream that breaks at any byte, exactly its complete events have been forwarded. The events
// of the next connection follow without its byte order mark.
func FuzzHoldPassesWholeEvents(f *testing.F) {
	for _, s := range seeds() {
		f.Add([]byte(s), []byte("\xef\xbb\xbfid: 9\n\nrest"), uint8(1))
		f.Add([]byte("id: 1\n\ndata: half"), []byte(s), uint8(4))
	}
	f.Fuzz(func(t *testing.T, first, second []byte, step uint8) {
		first, second = first[:min(len(first), 1<<10)], second[:min(len(second), 1<<10)]
		size := 1 + int(step%9)
		var s eventstream.Scanner
		var h eventstream.Buffer
		var out bytes.Buffer
		scanInSteps(t, &s, &h, &out, first, size)
		want := first[:wholeOf(first)]
		if !bytes.Equal(out.Bytes(), want) || h.Buffered() != len(first)-len(want) || h.InEvent() {
			t.Fatalf("of %q %q has passed, %d bytes are held; want %q", first, out.Bytes(), h.Buffered(), want)
		}
		s.Resume()
		h.Resume()
		known := read(first, reading{})
		if id, ok := s.ID(); ok != known.goesOn || ok && string(id) != known.id {
			t.Fatalf("behind %q: goes on from %q, %v; want %q, %v", first, id, ok, known.id, known.goesOn)
		}
		out.Reset()
		scanInSteps(t, &s, &h, &out, second, size)
		want = bytes.TrimPrefix(second[:wholeOf(second)], []byte("\ufeff"))
		if !bytes.Equal(out.Bytes(), want) {
			t.Fatalf("of %q %q has passed behind %q; want %q", second, out.Bytes(), first, want)
		}
		if got := read(second, known); known.goesOn {
			if id, ok := s.ID(); ok != got.goesOn || ok && string(id) != got.id {
				t.Fatalf("behind %q, %q: id %q, %v; want %q, %v", first, second, id, ok, got.id, got.goesOn)
			}
		}
		if err := h.End(&out); err != nil || !bytes.HasSuffix(second, out.Bytes()) {
			t.Fatalf("%q ends with %q, %v", second, out.Bytes(), err)
		}
	})
}

// An event that is longer than the buffer is forwarded as it arrives. The stream can resume elsewhere
// again only after the end of that event.
func TestLongEventPassesAsItComes(t *testing.T) {
	var s eventstream.Scanner
	var h eventstream.Buffer
	var out bytes.Buffer
	long := "id: 2\ndata: " + strings.Repeat("x", eventstream.MaxBuffered-len("id: 2\ndata: "))
	scanInSteps(t, &s, &h, &out, []byte("id: 1\n\n"+long), 1000)
	if out.String() != "id: 1\n\n" || h.InEvent() || h.Buffered() != eventstream.MaxBuffered {
		t.Fatalf("%d bytes have passed, %d are held; want those of the first event alone", out.Len(), h.Buffered())
	}
	scanInSteps(t, &s, &h, &out, []byte("x"), 1)
	if out.String() != "id: 1\n\n"+long+"x" || !h.InEvent() || h.Buffered() != 0 {
		t.Fatalf("%d bytes have passed, amid %v, %d held; want all", out.Len(), h.InEvent(), h.Buffered())
	}
	if id, _ := s.ID(); string(id) != "1" {
		t.Errorf("id %q before the end of the event, want 1", id)
	}
	scanInSteps(t, &s, &h, &out, []byte("\n\ndata: half"), 5)
	if id, _ := s.ID(); string(id) != "2" || h.InEvent() || h.Buffered() != len("data: half") {
		t.Errorf("behind it: id %q, amid %v, %d held", id, h.InEvent(), h.Buffered())
	}
}

type refusing struct{}

var errRefused = errors.New("refused")

func (refusing) Write([]byte) (int, error) { return 0, errRefused }

// After a write error, the buffer does not write again.
func TestBufferReturnsWriteError(t *testing.T) {
	var h eventstream.Buffer
	if err := h.Write(refusing{}, []byte("data: 1\n\n"), 9); !errors.Is(err, errRefused) {
		t.Errorf("Pass: %v", err)
	}
	if err := h.Write(refusing{}, []byte("data"), 0); err != nil {
		t.Errorf("Pass of what is held: %v", err)
	}
	if err := h.End(refusing{}); !errors.Is(err, errRefused) {
		t.Errorf("End: %v", err)
	}
}

// A part of a stream causes no allocation, whether it is a complete event or not, with and without
// ids.
func TestPartsAllocateNothing(t *testing.T) {
	var s eventstream.Scanner
	var h eventstream.Buffer
	var out bytes.Buffer
	parts := [][]byte{[]byte("id: 1234\ndata: x\n\n"), []byte("id: 1235\nda"), []byte("ta: y\n\n"), []byte(": ping\n\n")}
	if n := testing.AllocsPerRun(100, func() {
		for _, p := range parts {
			_ = h.Write(&out, p, s.Next(p))
		}
		out.Reset()
	}); n != 0 {
		t.Errorf("%v allocations for %d parts, want none", n, len(parts))
	}
}

func BenchmarkScanner(b *testing.B) {
	part := []byte(strings.Repeat("id: 1234567890\nevent: tick\ndata: "+strings.Repeat("x", 200)+"\n\n", 16))
	b.SetBytes(int64(len(part)))
	var s eventstream.Scanner
	for b.Loop() {
		s.Next(part)
	}
}
