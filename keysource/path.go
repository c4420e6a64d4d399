package keysource

import (
	"bytes"
	"math"
)

// Reading is a path as its most lenient reader takes it: percent-decoded, an
// encoded slash or a backslash for a slash, without what follows a semicolon in a
// segment, without empty segments. Apps differ in which of these they do, so what
// hangs on them has two readings.
type Reading struct {
	path []byte
	// sure is how many bytes of path every reader takes alike; MaxInt: all.
	sure int
	// dots tells of a segment . or .., which may change all the others.
	dots bool
}

// ReadPath reads a path, in dst if anything has to be rewritten.
func ReadPath(dst, path []byte) Reading {
	r := Reading{path: path, sure: math.MaxInt}
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

// Segment returns the n-th segment, from 1, nil when there is none. Not sure
// means that another reader of the path may find another one.
func (r *Reading) Segment(n int) (key []byte, sure bool) {
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
			if end > at+1 {
				key = r.path[at+1 : end]
			}
			return key, r.sure > end
		}
		at = end
	}
	return nil, r.sure == math.MaxInt
}

// NormalPath decodes a path and resolves its dot segments (RFC 3986 section
// 5.2.4), in dst if anything changes. An encoded slash becomes one: apps that
// decode before they split are the common kind.
func NormalPath(dst, path []byte) []byte {
	if bytes.IndexByte(path, '%') < 0 && !bytes.Contains(path, []byte("/.")) {
		return path
	}
	decoded := unescape(dst[:0], path)
	out := decoded[:0] // never grows beyond what has been read
	for in := decoded; len(in) > 0; {
		end := bytes.IndexByte(in[1:], '/') + 1
		if end == 0 {
			end = len(in)
		}
		segment := in[:end]
		in = in[end:]
		switch string(segment) {
		case "/.":
			if len(in) == 0 {
				out = append(out, '/')
			}
		case "/..":
			out = out[:max(bytes.LastIndexByte(out, '/'), 0)]
			if len(in) == 0 {
				out = append(out, '/')
			}
		default:
			out = append(out, segment...)
		}
	}
	return out
}

// unescape appends v to dst, percent-decoded; what is no escape stays.
func unescape(dst, v []byte) []byte {
	for i := 0; i < len(v); i++ {
		c := v[i]
		if c == '%' && i+2 < len(v) && unhex(v[i+1]) < 16 && unhex(v[i+2]) < 16 {
			c = unhex(v[i+1])<<4 | unhex(v[i+2])
			i += 2
		}
		dst = append(dst, c)
	}
	return dst
}

// unhex returns the value of a hexadecimal digit, 16 for anything else.
func unhex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 16
}
