package mux

import (
	"bytes"
	"io"
	"net"
	"testing"
)

// FuzzFrames parses arbitrary bytes: a parsed frame is encoded to the same bytes.
func FuzzFrames(f *testing.F) {
	f.Add(appendFrame(appendFrame(nil, frameOpen, 1, nil), frameData, 1, []byte("GET / HTTP/1.1\r\n\r\n")))
	f.Add(appendFrame(appendFrame(nil, frameWindowUpdate, 7, []byte{0, 0, 1, 0}), framePing, 0, nil))
	f.Add([]byte{0xff, 0xff, 0xff, 2, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			fr, n, err := parseFrame(b)
			if err != nil || n == 0 {
				return
			}
			if again := appendFrame(nil, fr.typ, fr.stream, fr.data); !bytes.Equal(again, b[:n]) {
				t.Fatalf("%x is parsed as %+v, which is encoded as %x", b[:n], fr, again)
			}
			b = b[n:]
		}
	})
}

// scriptedConn is a connection with fixed bytes to read. It accepts all writes.
type scriptedConn struct {
	net.Conn
	r *bytes.Reader
}

func (s scriptedConn) Read(p []byte) (int, error)  { return s.r.Read(p) }
func (s scriptedConn) Write(p []byte) (int, error) { return len(p), nil }
func (s scriptedConn) Close() error                { return nil }

// FuzzSession lets the peer send arbitrary bytes: nothing panics, no stream keeps more than its
// window, and each delivers the bytes of its frames up to its end, and no others.
func FuzzSession(f *testing.F) {
	add := func(frames ...frame) {
		var b []byte
		for _, fr := range frames {
			b = appendFrame(b, fr.typ, fr.stream, fr.data)
		}
		f.Add(b)
	}
	add(frame{frameOpen, 1, nil}, frame{frameData, 1, []byte("ab")}, frame{frameOpen, 2, nil}, frame{frameData, 2, []byte("x")}, frame{frameData, 1, []byte("c")}, frame{frameEndStream, 1, nil}, frame{frameData, 1, []byte("late")})
	add(frame{frameOpen, 9, nil}, frame{frameReset, 9, nil}, frame{frameData, 9, []byte("late")}, frame{frameClose, 9, nil})
	add(frame{frameOpen, 1, nil}, frame{frameOpen, 2, nil}, frame{frameData, 1, make([]byte, 300)}, frame{frameWindowUpdate, 2, []byte{0, 0, 0, 1}})
	add(frame{frameOpen, 1, nil}, frame{framePing, 0, nil}, frame{framePong, 0, nil}, frame{frameGoAway, 1, nil}, frame{frameData, 1, []byte("late")})
	f.Fuzz(func(t *testing.T, b []byte) {
		var streams []*Stream
		tr := newSession(scriptedConn{r: bytes.NewReader(b)}, NewBudget(MaxStreams, nil), func(st *Stream) bool { streams = append(streams, st); return true })
		why := tr.Run()
		want := expectedStreams(b)
		if len(streams) > len(want) {
			t.Fatalf("%d streams of %d that were opened", len(streams), len(want))
		}
		for _, st := range streams {
			got, err := io.ReadAll(st)
			if len(got) > Window || !bytes.Equal(got, want[st.id].data) {
				t.Fatalf("stream %d has %q, want %q", st.id, got, want[st.id].data)
			}
			if (err == nil) != want[st.id].whole {
				t.Fatalf("stream %d ends with %v (the session with %v); complete: %v", st.id, err, why, want[st.id].whole)
			}
		}
	})
}

// expectedStream is the content of a stream according to the frames alone.
type expectedStream struct {
	data  []byte
	done  bool // further frames are ignored
	whole bool
}

// expectedStreams interprets the frames without returned credit, because nothing is read yet.
func expectedStreams(b []byte) map[uint32]*expectedStream {
	streams := make(map[uint32]*expectedStream)
	last := uint32(0)
	for {
		f, n, err := parseFrame(b)
		if err != nil || n == 0 {
			return streams
		}
		b = b[n:]
		l := streams[f.stream]
		switch {
		case f.typ == framePing:
		case f.typ == frameOpen && f.stream > last:
			if last = f.stream; len(streams) < MaxStreams { // this end closes none
				streams[f.stream] = new(expectedStream)
			}
		case f.typ == frameOpen || f.typ == frameGoAway || f.stream > last:
			return streams
		case l == nil || l.done:
		case f.typ == frameWindowUpdate:
			return streams // no credit was used, so the update exceeds the window
		case f.typ == frameData && l.whole:
			// After the end: ignored, but it uses credit.
			if len(l.data)+len(f.data) > Window {
				return streams
			}
		case f.typ == frameData && len(l.data)+len(f.data) > Window:
			return streams
		case f.typ == frameData:
			l.data = append(l.data, f.data...)
		default:
			l.done = f.typ != frameEndStream
			l.whole = l.whole || f.typ != frameReset
			if f.typ == frameReset {
				l.whole = false
			}
		}
	}
}
