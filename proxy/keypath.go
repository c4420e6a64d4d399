package proxy

import (
	"bytes"
	"math"
)

// reading is a path as its most lenient reader takes it: percent-decoded, an
// encoded slash or a backslash for a slash, without what follows a semicolon in a
// segment, without empty segments. Apps differ in which of these they do, so what
// hangs on them has two readings.
type reading struct {
	path []byte
	// sure is how many bytes of path every reader takes alike; MaxInt: all.
	sure int
	// dots tells of a segment . or .., which may change all the others.
	dots bool
}

// readPath reads a path, in dst if anything has to be rewritten.
func readPath(dst, path []byte) reading {
	r := reading{path: path, sure: math.MaxInt}
	if bytes.IndexByte(path, '%') < 0 && bytes.IndexByte(path, ';') < 0 && bytes.IndexByte(path, '\\') < 0 &&
		!bytes.Contains(path, []byte("//")) && !bytes.Contains(path, []byte("/.")) {
		return r
	}
	r.path = dst[:0]
	begin := 0         // of the segment in r.path
	parameter := false // a semicolon has been met in the segment
	for i := 0; i < len(path); i++ {
		c, plain := path[i], true
		if c == '%' && i+2 < len(path) && unhex(path[i+1]) < 16 && unhex(path[i+2]) < 16 {
			c, plain = unhex(path[i+1])<<4|unhex(path[i+2]), false
			i += 2
		}
		slash := c == '/' || c == '\\'
		empty := slash && len(r.path) == begin && begin > 0
		if c == ';' || empty || slash && (c != '/' || !plain) {
			r.sure = min(r.sure, len(r.path))
		}
		switch {
		case slash:
			r.dots = r.dots || isDots(r.path[begin:])
			parameter = false
			if empty {
				continue
			}
			r.path = append(r.path, '/')
			begin = len(r.path)
		case c == ';':
			parameter = true
		case !parameter:
			r.path = append(r.path, c)
		}
	}
	r.dots = r.dots || isDots(r.path[begin:])
	return r
}

func isDots(segment []byte) bool { return string(segment) == "." || string(segment) == ".." }

// segment returns the n-th segment, from 1, nil when there is none. Not sure
// means that another reader of the path may find another one.
func (r *reading) segment(n int) (key []byte, sure bool) {
	if r.dots {
		return nil, false
	}
	at := 0
	for ; at < len(r.path) && r.path[at] == '/'; n-- {
		end := len(r.path)
		if next := bytes.IndexByte(r.path[at+1:], '/'); next >= 0 {
			end = at + 1 + next
		}
		if n == 1 {
			return orNil(r.path[at+1 : end]), r.sure > end
		}
		at = end
	}
	return nil, r.sure == math.MaxInt
}
