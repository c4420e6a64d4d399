package proxy

import (
	"bytes"
	"testing"
)

// boundaries returns after which bytes of a stream no event is open, by the words of
// the standard: lines end in CR LF, LF or CR, and a blank one ends an event.
func boundaries(p []byte) []bool {
	ends := make([]bool, len(p)+1)
	ends[0] = true
	for start, i := 0, 0; i < len(p); {
		if p[i] != '\r' && p[i] != '\n' {
			i++
			continue
		}
		blank := i == start
		ends[i+1] = blank
		if p[i] == '\r' && i+1 < len(p) && p[i+1] == '\n' {
			i++
			ends[i+1] = blank
		}
		i++
		start = i
	}
	return ends
}

// Where an event ends does not depend on how its bytes arrive.
func FuzzEventsEndAtBlankLines(f *testing.F) {
	f.Add([]byte("data: 1\n\ndata: 2\r\n\r\nid: 3\r\rx"), uint8(3))
	f.Add([]byte("\n\r\n\r\r\n"), uint8(1))
	f.Fuzz(func(t *testing.T, p []byte, step uint8) {
		ends := boundaries(p)
		l := lines{blank: true, between: true}
		size := int(step%7) + 1
		for at := 0; at < len(p); {
			part := p[at:min(at+size, len(p))]
			was := l
			l.advance(part)
			if l.between != ends[at+len(part)] {
				t.Fatalf("after %q: between %v, want %v", p[:at+len(part)], l.between, ends[at+len(part)])
			}
			cut, over := was.upTo(part)
			switch first := bytes.IndexByte(flags(ends[at:at+len(part)+1]), 1); {
			case over != (first >= 0):
				t.Fatalf("%q of %q: over %v, first end at %d", part, p, over, first)
			case over && !ends[at+len(cut)]:
				t.Fatalf("%q of %q is cut in an event, behind %q", part, p, cut)
			}
			at += len(part)
		}
	})
}

func flags(b []bool) []byte {
	f := make([]byte, len(b))
	for i, on := range b {
		if on {
			f[i] = 1
		}
	}
	return f
}
